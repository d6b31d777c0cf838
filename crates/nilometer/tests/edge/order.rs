//! Promise: whatever is sent again, left out, or comes in another order, every row is there once, and nothing is acknowledged that
//! is not.

use std::sync::Arc;

use nilometer_edge::EdgeConfig;
use nilometer_engine::disk::MemoryDisk;
use nilometer_service::ServiceOptions;

use crate::support::{Flash, Server, all, golden, image_rows, large, small, stored};

#[tokio::test]
async fn pages_that_come_again_are_not_stored_again() {
    let server = Server::new();
    // A table that keeps rows of one key shows them all.
    let lines = "climate,device=other,room=attic temperature=1,open=true 1";
    let path = "/api/v3/write_lp?db=edge&precision=nanosecond";
    assert_eq!(server.send("POST", path, &[], lines).await.status, 204);
    let settings = nilometer_engine::TableSettings {
        duplicates: nilometer_engine::Duplicates::Keep,
        ..nilometer_engine::TableSettings::default()
    };
    server
        .engine
        .set_table("edge", "public", "climate", settings)
        .unwrap();
    let (pages, flash) = (small(), Flash::of_image("dev", 1));
    for (after, range, repeated) in [
        (0, 0..1, 0),
        (0, 0..1, 1),
        (0, 0..2, 1),
        // The answer to this one was lost: the device does not know that it has come to 2.
        (1, 1..3, 1),
        (0, 0..3, 3),
        (3, 0..3, 3),
    ] {
        let last = range.end as u64;
        let sent = all(&pages[range.clone()]);
        let answer = server.push(&flash, after, &sent).await;
        assert_eq!(answer.progress(), (200, last), "{range:?}: {}", answer.text);
        assert_eq!(answer.number("repeated"), repeated, "{range:?}");
    }
    assert_eq!(stored(&server, "dev").await, image_rows());
    let metric = server.metric("nilometer_device_pages_repeated_total").await;
    assert_eq!(metric, 1 + 1 + 1 + 3 + 3);
}

#[tokio::test]
async fn an_empty_body_asks_how_far_the_flash_has_come() {
    let server = Server::new();
    let (pages, flash) = (small(), Flash::of_image("dev", 1));
    let path = flash.path();
    let ask = || server.send("POST", &path, &[], "");
    let answer = ask().await;
    assert_eq!(
        (answer.progress(), answer.number("checksum")),
        ((200, 0), 0)
    );
    server.push(&flash, 0, &all(&pages[..2])).await;
    let answer = ask().await;
    let checksum = u32::from_le_bytes(*pages[1].last_chunk().unwrap());
    assert_eq!(answer.progress(), (200, 2));
    assert_eq!(answer.number("checksum"), u64::from(checksum));
    // Another device, and another life of its flash, have come nowhere.
    for other in [Flash::of_image("dev2", 1), Flash::of_image("dev", 2)] {
        let answer = server.send("POST", &other.path(), &[], "").await;
        assert_eq!(answer.progress(), (200, 0), "{other:?}");
    }
    // What comes first has to be said with pages.
    let answer = server
        .send("POST", &flash.path(), &[], pages[2].clone())
        .await;
    assert_eq!(answer.status, 400, "{}", answer.text);
    assert!(answer.text.contains("'after'"), "{}", answer.text);
}

#[tokio::test]
async fn a_request_that_was_lost_is_asked_for_and_a_page_that_the_device_gave_up_is_not() {
    let server = Server::new();
    let (pages, flash) = (small(), Flash::of_image("dev", 1));
    server.push(&flash, 0, &all(&pages[..1])).await;
    // Page 2 never arrived.
    let answer = server.push(&flash, 2, &all(&pages[2..])).await;
    assert_eq!(answer.progress(), (409, 1), "{}", answer.text);
    assert_eq!(stored(&server, "dev").await.len(), stored_in(1));
    // The device has not got it any more: its ring went on.
    let answer = server.push(&flash, 1, &all(&pages[2..])).await;
    assert_eq!(answer.progress(), (200, 3), "{}", answer.text);
    // It comes late, by whichever way: it counts as there, as it was said to be gone.
    let answer = server.push(&flash, 0, &all(&pages[1..2])).await;
    assert_eq!(answer.progress(), (200, 3), "{}", answer.text);
    assert_eq!(answer.number("repeated"), 1);
}

/// How many of the 140 rows the first pages of the small image have: their heads say how many ticks they span, 10 a row.
fn stored_in(pages: usize) -> usize {
    let ends = small().into_iter().take(pages);
    let ends = ends.map(|page| i64::from_le_bytes(*page[40..].first_chunk().unwrap()));
    usize::try_from((ends.max().unwrap() - 1000) / 10 + 1).unwrap()
}

#[tokio::test]
async fn pages_in_another_order_are_refused_from_the_first_that_is_wrong_on() {
    let server = Server::new();
    let (pages, flash) = (small(), Flash::of_image("dev", 1));
    let mixed: Vec<&[u8]> = vec![&pages[0], &pages[0]];
    let answer = server.push(&flash, 0, &mixed).await;
    assert_eq!(answer.progress(), (422, 1), "{}", answer.text);
    assert_eq!((answer.number("page"), answer.number("offset")), (2, 173));
    // Seal pages: the golden ones of one seal have sequences 1 and 2, and 1 is not its last one.
    let flash = Flash::new("other", 1);
    let (first, last) = (golden("written_0.bin"), golden("written_2.bin"));
    let answer = server.push(&flash, 0, &[&first, &last]).await;
    assert_eq!(answer.progress(), (422, 1), "{}", answer.text);
    assert!(answer.text.contains("interrupted"), "{}", answer.text);
}

#[tokio::test]
async fn a_flash_that_was_erased_is_another_one_and_is_told_apart_if_its_number_was_forgotten() {
    let server = Server::new();
    let (first, second) = (small(), large());
    server
        .push(&Flash::of_image("dev", 1), 0, &all(&first))
        .await;
    // Sequences begin at 1 again. With the number of the old life, page 3 is not the page 3 that is known.
    let wrong = Flash::of_image("dev", 1);
    let answer = server.push(&wrong, 0, &all(&second[..3])).await;
    assert_eq!(answer.progress(), (409, 3), "{}", answer.text);
    assert!(answer.text.contains("store"), "{}", answer.text);
    let answer = server
        .push(&Flash::of_image("dev", 2), 0, &all(&second))
        .await;
    assert_eq!(answer.progress(), (200, 6), "{}", answer.text);
    // Both lives have the same rows of one series here.
    assert_eq!(stored(&server, "dev").await, image_rows());
    let answer = server.push(&Flash::of_image("dev", 1), 3, &[]).await;
    assert_eq!(answer.progress(), (200, 3));
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_a_restart() {
    let disk = Arc::new(MemoryDisk::default());
    let open = || Server::at(&disk, EdgeConfig::default(), ServiceOptions::default());
    let (pages, flash) = (small(), Flash::of_image("dev", 1));
    for page in 0..3 {
        let server = open();
        let after = page as u64;
        let answer = server.push(&flash, after, &all(&pages[..=page])).await;
        assert_eq!(answer.progress(), (200, after + 1), "{}", answer.text);
        assert_eq!(answer.number("repeated"), after);
        // Without closing it first.
    }
    let server = open();
    assert_eq!(stored(&server, "dev").await, image_rows());
    let answer = server.send("POST", &flash.path(), &[], "").await;
    assert_eq!(answer.progress(), (200, 3));
}

#[tokio::test]
async fn what_is_known_of_a_device_goes_with_its_database() {
    let server = Server::new();
    let (pages, flash) = (small(), Flash::of_image("dev", 1));
    server.push(&flash, 0, &all(&pages)).await;
    let drop = "/query?q=DROP%20DATABASE%20edge";
    assert_eq!(server.send("POST", drop, &[], "").await.status, 200);
    let answer = server.push(&flash, 0, &all(&pages)).await;
    assert_eq!(answer.status, 404, "{}", answer.text);
    let create = "/query?q=CREATE%20DATABASE%20edge";
    assert_eq!(server.send("POST", create, &[], "").await.status, 200);
    let answer = server.push(&flash, 0, &all(&pages)).await;
    assert_eq!(answer.progress(), (200, 3), "{}", answer.text);
    assert_eq!(answer.number("pages"), 3);
    assert_eq!(stored(&server, "dev").await, image_rows());
}

#[tokio::test]
async fn two_requests_of_one_flash_at_a_time_store_each_row_once() {
    let server = Server::new();
    let (pages, flash) = (small(), Flash::of_image("dev", 1));
    let sent = all(&pages);
    let both = [server.push(&flash, 0, &sent), server.push(&flash, 0, &sent)];
    for answer in futures::future::join_all(both).await {
        // One may be told to ask again.
        assert!([200, 503].contains(&answer.status), "{}", answer.text);
    }
    let answer = server.push(&flash, 0, &sent).await;
    assert_eq!(answer.progress(), (200, 3), "{}", answer.text);
    assert_eq!(server.metric("nilometer_device_rows_total").await, 140);
    assert_eq!(stored(&server, "dev").await, image_rows());
}
