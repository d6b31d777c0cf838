//! Promise: in the image of a flash the pages are found that the device itself would send, and damage costs pages, no more.
//!
//! `golden/device-1/image.c` wrote the images with the C library, those of `device-2` with one whose frames have decimals, those of `device-3` (its last rows inserted at once) with one whose frames have regular rows; the places of pages are those that its `ne_next_page` printed.

#![expect(
    clippy::unwrap_used,
    reason = "the files are small, and a failed unwrap is the report"
)]

use std::collections::BTreeMap;
use std::path::Path;

use nilometer_codec::ColumnBuf;
use nilometer_codec::device_image::{DeviceImage, FlashSector, HotRows, SectorKind};

fn image(name: &str) -> Vec<u8> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden");
    std::fs::read(golden.join(name)).unwrap()
}

/// Sequence, place and bytes of the pages that count.
fn found(image: &DeviceImage<'_>) -> Vec<(u64, usize, usize)> {
    let pages = image.pages().into_iter().filter(|it| it.counts);
    pages
        .map(|it| (it.page.unwrap().sequence, it.offset, it.bytes.len()))
        .collect()
}

#[test]
fn an_image_has_the_pages_that_its_device_would_send() {
    let small = vec![(1, 4128, 173), (2, 4301, 173), (3, 4474, 163)];
    // Of the library whose frames have decimals: more rows in a sector, so fewer pages.
    let smaller = vec![(1, 3104, 185), (2, 3289, 178)];
    let smaller_again = smaller.clone();
    let large = vec![
        (1, 7232, 160),
        (2, 7392, 160),
        (3, 7552, 160),
        (4, 7712, 160),
        (5, 7872, 160),
        (6, 8032, 144),
    ];
    let images = [
        ("device-1/image_unit_1.img", small),
        ("device-1/image_unit_32.img", large.clone()),
        ("device-2/image_unit_1.img", smaller),
        ("device-2/image_unit_32.img", large.clone()),
        ("device-3/image_unit_1.img", smaller_again),
        ("device-3/image_unit_32.img", large),
    ];
    for (name, pages) in images {
        let bytes = image(name);
        let image = DeviceImage::open(&bytes, None).unwrap();
        assert_eq!(image.sector_bytes(), 1024, "{name}");
        assert_eq!(found(&image), pages, "{name}");
        let mut rows = 0;
        let mut times = Vec::new();
        for page in image.pages() {
            let opened = page.page.unwrap();
            assert_eq!(opened.boot, 7, "{name}");
            rows += opened.rows();
            let mut column = ColumnBuf::default();
            let shown = opened.decode(page.bytes, &mut column, |block, field, column| {
                if field.is_none() {
                    times.extend(column.i64s().iter().map(|time| time + block.base));
                }
            });
            shown.unwrap();
        }
        assert_eq!(rows, 140, "{name}");
        let put_in: Vec<i64> = (0..140).map(|row| 1000 + 10 * row).collect();
        assert_eq!(times, put_in, "{name}");
        assert_eq!(
            image.clocks(),
            BTreeMap::from([(7, 1_700_000_000_000)]),
            "{name}"
        );
        let hot = HotRows {
            sectors: 1,
            rows: 10,
        };
        assert_eq!(image.hot_rows(), hot, "{name}");
        let is_sealed = |sector: &FlashSector| sector.kind == SectorKind::Sealed;
        assert!(image.sectors().iter().any(is_sealed), "{name}");
    }
}

#[test]
fn a_flipped_bit_costs_pages_and_invents_none() {
    let whole = image("device-2/image_unit_1.img");
    let pages = found(&DeviceImage::open(&whole, None).unwrap());
    let mut lost = 0;
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        let Ok(image) = DeviceImage::open(&bytes, Some(1024)) else {
            continue;
        };
        let left = found(&image);
        assert!(left.iter().all(|page| pages.contains(page)), "byte {at}");
        lost += usize::from(left.len() < pages.len());
        image.hot_rows();
        image.clocks();
    }
    // Every byte of a page is covered by its checksum.
    let bytes: usize = pages.iter().map(|page| page.2).sum();
    assert!(lost >= bytes, "{lost} of {bytes}");
}

#[test]
fn an_image_that_was_cut_or_is_none_never_panics() {
    let whole = image("device-1/image_unit_32.img");
    for bytes in 0..whole.len() {
        for sector_bytes in [None, Some(1024), Some(65536), Some(0)] {
            if let Ok(image) = DeviceImage::open(&whole[..bytes], sector_bytes) {
                image.pages();
                image.hot_rows();
            }
        }
    }
    assert!(DeviceImage::open(&[0; 8192], None).is_err());
    assert!(DeviceImage::open(&[0xff; 8192], None).is_err());
}
