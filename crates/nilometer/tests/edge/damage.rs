//! Promise: a page that is not the one that was written is refused by its place, what is before it is kept, and a request that
//! would become too much is refused before it does.

use std::sync::Arc;

use nilometer_edge::EdgeConfig;
use nilometer_service::ServiceOptions;

use crate::support::{Flash, Server, all, golden, image_rows, small, stored};

#[tokio::test]
async fn every_byte_of_a_page_counts_and_none_of_its_damage_costs_a_row() {
    let server = Server::new();
    let pages = small();
    let mut store = 0;
    for at in 0..pages[1].len() {
        for bit in [0, 7] {
            store += 1;
            let flash = Flash::of_image("dev", store);
            let mut damaged = pages[1].clone();
            damaged[at] ^= 1 << bit;
            let answer = server
                .push(&flash, 0, &[&pages[0], &damaged, &pages[2]])
                .await;
            assert_eq!(answer.progress(), (422, 1), "byte {at}: {}", answer.text);
            assert_eq!((answer.number("page"), answer.number("offset")), (2, 173));
        }
    }
    // The rows of the first page, and no others, however often it came.
    let kept = stored(&server, "dev").await;
    assert_eq!(kept, image_rows()[..kept.len()]);
    assert!((1..140).contains(&kept.len()), "{}", kept.len());
    let flash = Flash::of_image("dev", 1);
    let answer = server.push(&flash, 1, &all(&pages[1..])).await;
    assert_eq!(answer.progress(), (200, 3), "{}", answer.text);
    assert_eq!(stored(&server, "dev").await, image_rows());
    let refused = server.metric("nilometer_device_pages_refused_total").await;
    assert_eq!(refused, u64::from(store));
}

#[tokio::test]
async fn a_body_that_was_cut_keeps_its_whole_pages() {
    let server = Server::new();
    let pages = small();
    let body = pages.concat();
    let ends = [0, 173, 346, 509];
    for length in 0..=body.len() {
        let flash = Flash::of_image("dev", u32::try_from(length).unwrap());
        let answer = server.push(&flash, 0, &[&body[..length]]).await;
        let whole = ends.iter().filter(|end| **end <= length).count() as u64 - 1;
        let is_end = ends.contains(&length);
        let status = if is_end { 200 } else { 422 };
        assert_eq!(
            answer.progress(),
            (status, whole),
            "{length}: {}",
            answer.text
        );
    }
    assert_eq!(stored(&server, "dev").await, image_rows());
}

#[tokio::test]
async fn ticks_of_a_start_that_nobody_has_told_the_clock_of_wait() {
    let server = Server::new();
    let pages = small();
    let unknown = Flash {
        clock: "8:5",
        ..Flash::new("dev", 1)
    };
    let answer = server.push(&unknown, 0, &all(&pages)).await;
    assert_eq!(answer.progress(), (422, 0), "{}", answer.text);
    assert_eq!(answer.number("boot"), 7);
    let far = Flash {
        clock: "7:9223372036854775807",
        ..Flash::new("dev", 1)
    };
    let answer = server.push(&far, 0, &all(&pages)).await;
    assert_eq!(answer.progress(), (422, 0), "{}", answer.text);
    let known = Flash::of_image("dev", 1);
    let answer = server.push(&known, 0, &all(&pages)).await;
    assert_eq!(answer.progress(), (200, 3), "{}", answer.text);
    assert_eq!(stored(&server, "dev").await, image_rows());
}

#[tokio::test]
async fn a_series_cannot_pass_for_one_of_another_device() {
    let server = Server::with(EdgeConfig {
        // The golden pages have it as a tag.
        device_tag: "room".to_owned(),
        ..EdgeConfig::default()
    });
    let pages = small();
    let answer = server
        .push(&Flash::of_image("dev", 1), 0, &all(&pages))
        .await;
    assert_eq!(answer.progress(), (422, 0), "{}", answer.text);
    assert!(answer.text.contains("edge-device-tag"), "{}", answer.text);
    let answer = server
        .push(&Flash::of_image("attic", 1), 0, &all(&pages))
        .await;
    assert_eq!(answer.progress(), (200, 3), "{}", answer.text);
    let named = EdgeConfig {
        device_tag: "temperature".to_owned(),
        ..EdgeConfig::default()
    };
    let answer = Server::with(named)
        .push(&Flash::of_image("dev", 1), 0, &all(&pages))
        .await;
    assert_eq!(answer.progress(), (422, 0), "{}", answer.text);
    assert!(answer.text.contains("two columns"), "{}", answer.text);
}

#[tokio::test]
async fn what_a_table_cannot_take_refuses_the_request_and_acknowledges_nothing() {
    let server = Server::new();
    let lines = "climate,room=attic temperature=\"warm\" 1";
    let path = "/api/v3/write_lp?db=edge&precision=nanosecond";
    assert_eq!(server.send("POST", path, &[], lines).await.status, 204);
    let (pages, flash) = (small(), Flash::of_image("dev", 1));
    let answer = server.push(&flash, 0, &all(&pages)).await;
    assert_eq!(answer.progress(), (400, 0), "{}", answer.text);
    assert!(answer.text.contains("temperature"), "{}", answer.text);
    assert_eq!(
        stored(&server, "dev").await,
        Vec::<Vec<serde_json::Value>>::new()
    );
    let answer = server.send("POST", &flash.path(), &[], "").await;
    assert_eq!(answer.progress(), (200, 0));
}

#[tokio::test]
async fn limits_hold_before_anything_is_decoded_and_keep_what_is_before_them() {
    let pages = small();
    let flash = Flash::of_image("dev", 1);
    let small_body = EdgeConfig {
        body_bytes_max: 508,
        ..EdgeConfig::default()
    };
    let server = Server::with(small_body);
    let answer = server.push(&flash, 0, &all(&pages)).await;
    assert_eq!(answer.status, 413, "{}", answer.text);
    assert!(
        answer.text.contains("edge-body-bytes-max"),
        "{}",
        answer.text
    );
    let answer = server.push(&flash, 0, &all(&pages[..2])).await;
    assert_eq!(answer.progress(), (200, 2), "{}", answer.text);

    // A page of the image has some 48 rows of 3 columns: about 3 KB with its names.
    let few_rows = EdgeConfig {
        rows_bytes_max: 6 << 10,
        ..EdgeConfig::default()
    };
    let server = Server::with(few_rows);
    let answer = server.push(&flash, 0, &all(&pages)).await;
    assert_eq!(answer.status, 413, "{}", answer.text);
    assert!(
        answer.text.contains("edge-rows-bytes-max"),
        "{}",
        answer.text
    );
    let kept = answer.number("acknowledged");
    assert!((1..3).contains(&kept), "{}", answer.text);
    // The rest fits the next one.
    let rest = usize::try_from(kept).unwrap();
    let answer = server.push(&flash, kept, &all(&pages[rest..])).await;
    assert_eq!(answer.progress(), (200, 3), "{}", answer.text);
    assert_eq!(stored(&server, "dev").await, image_rows());

    let one_table = EdgeConfig {
        tables_max: 1,
        ..EdgeConfig::default()
    };
    let server = Server::with(one_table);
    let several = golden("several_series_and_types.bin");
    let answer = server.push(&Flash::new("dev", 1), 0, &[&several]).await;
    assert_eq!(answer.progress(), (413, 0), "{}", answer.text);
    assert!(answer.text.contains("edge-tables-max"), "{}", answer.text);

    let little_memory = ServiceOptions {
        bodies_bytes_max: 64 << 10,
        ..ServiceOptions::default()
    };
    let server = Server::at(&Arc::default(), EdgeConfig::default(), little_memory);
    let answer = server.push(&flash, 0, &all(&pages)).await;
    assert_eq!(answer.progress(), (503, 0), "{}", answer.text);
    assert!(answer.text.contains("bodies-bytes-max"), "{}", answer.text);
}

/// A device, or whoever has its key, may send anything with a right checksum.
#[tokio::test]
async fn hostile_pages_with_right_checksums_are_answered_and_never_break_the_server() {
    let server = Server::new();
    let mut answers = std::collections::BTreeMap::new();
    let mut store = 0;
    for name in [
        "several_series_and_types",
        "written_0",
        "blocked",
        "unsigned",
    ] {
        let page = golden(&format!("{name}.bin"));
        let body = page.len() - 4;
        for at in 0..body {
            for value in [0x00, 0xff, page[at] ^ 0x01, page[at] ^ 0x10] {
                let mut hostile = page.clone();
                hostile[at] = value;
                let checksum = crc32c::crc32c(&hostile[..body]);
                hostile[body..].copy_from_slice(&checksum.to_le_bytes());
                store += 1;
                let flash = Flash {
                    clock: "1:0,255:0",
                    ..Flash::new("dev", store)
                };
                let answer = server.push(&flash, 0, &[&hostile]).await;
                *answers.entry(answer.status).or_insert(0) += 1;
                let is_known = [200, 400, 413, 422].contains(&answer.status);
                assert!(is_known, "{name}, byte {at} = {value}: {}", answer.text);
            }
        }
    }
    // Values may be others without breaking a rule; most changes break one.
    let count = |status| answers.get(&status).copied().unwrap_or(0);
    assert!(count(200) > 100 && count(422) > 1000, "{answers:?}");
    let flash = Flash::of_image("good", 1);
    let answer = server.push(&flash, 0, &all(&small())).await;
    assert_eq!(answer.progress(), (200, 3), "{}", answer.text);
    assert_eq!(stored(&server, "good").await, image_rows());
}
