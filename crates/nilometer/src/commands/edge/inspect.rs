//! `nilometer edge inspect`: what the image of a flash holds.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use chrono::{DateTime, SecondsFormat};
use clap::Args;
use nilometer_codec::ColumnBuf;
use nilometer_codec::device_image::{DeviceImage, ImagePage, SectorKind};
use serde_json::{Value, json};

use super::ImageArgs;
use crate::print::{self, Table, thousands};

/// What to look into.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nilometer edge inspect flash.img\n  nilometer edge inspect flash.img --json"
)]
pub(crate) struct InspectArgs {
    #[command(flatten)]
    image: ImageArgs,
    /// Print JSON instead of tables.
    #[arg(long)]
    json: bool,
}

/// What is known of a page.
struct Page {
    offset: usize,
    bytes: usize,
    /// `None` = it could not be read.
    head: Option<Head>,
    health: String,
}

struct Head {
    sequence: u64,
    part: u16,
    source: u32,
    boot: u32,
    rows: usize,
    series: usize,
    from: String,
    until: String,
}

/// Rows of one series in pages that count.
#[derive(Default)]
struct Series {
    fields: Vec<String>,
    pages: u64,
    rows: u64,
    /// First and last time, as far as their clock is known: nanoseconds, else ticks of a boot.
    times: BTreeMap<u32, (i64, i64, u32)>,
}

/// All that is shown.
struct Found {
    sector_bytes: usize,
    sectors: BTreeMap<&'static str, u64>,
    erases: (u32, u32),
    pages: Vec<Page>,
    series: BTreeMap<String, Series>,
    clocks: BTreeMap<u32, i64>,
    hot_rows: usize,
}

pub(crate) fn run(args: &InspectArgs) -> anyhow::Result<()> {
    let bytes = args.image.read()?;
    let image = DeviceImage::open(&bytes, args.image.sector_bytes)?;
    let found = look(&image);
    if args.json {
        print::line(format!("{:#}", as_json(&found)));
    } else {
        print::raw(as_text(&found).as_bytes())?;
    }
    Ok(())
}

fn look(image: &DeviceImage<'_>) -> Found {
    let clocks = image.clocks();
    let mut sectors = BTreeMap::new();
    for sector in image.sectors() {
        let kind = match sector.kind {
            SectorKind::Unformatted => "unformatted",
            SectorKind::Free => "free",
            SectorKind::Hot => "hot",
            SectorKind::Sealed => "sealed",
        };
        *sectors.entry(kind).or_default() += 1;
    }
    let formatted = image.sectors().iter();
    let erases = formatted
        .filter(|sector| sector.kind != SectorKind::Unformatted)
        .map(|sector| sector.erases);
    let mut series: BTreeMap<String, Series> = BTreeMap::new();
    let pages = image.pages();
    let pages = pages.iter().map(|page| look_at(page, &clocks, &mut series));
    Found {
        pages: pages.collect(),
        sector_bytes: image.sector_bytes(),
        sectors,
        erases: (erases.clone().min().unwrap_or(0), erases.max().unwrap_or(0)),
        series,
        hot_rows: image.hot_rows().rows,
        clocks,
    }
}

fn look_at(
    image: &ImagePage<'_>,
    clocks: &BTreeMap<u32, i64>,
    series: &mut BTreeMap<String, Series>,
) -> Page {
    let shown = |head, health| Page {
        offset: image.offset,
        bytes: image.bytes.len(),
        head,
        health,
    };
    let page = match &image.page {
        Ok(page) => page,
        Err(error) => return shown(None, format!("damaged: {error}")),
    };
    let shift = match page.boot {
        0 => Some(0),
        boot => clocks.get(&boot).copied(),
    };
    let (from, until) = page.times;
    let head = Head {
        sequence: page.sequence,
        part: page.part,
        source: page.source,
        boot: page.boot,
        rows: page.rows(),
        series: page.blocks.len(),
        from: time(from, shift, page.tick_ns, page.boot),
        until: time(until, shift, page.tick_ns, page.boot),
    };
    if let Err(error) = page.verify(image.bytes, &mut ColumnBuf::default()) {
        return shown(Some(head), format!("damaged: {error}"));
    }
    if !image.counts {
        return shown(Some(head), "of a seal without an end".to_owned());
    }
    for block in &page.blocks {
        let known = series.entry(block.key.to_owned()).or_default();
        known.pages += 1;
        known.rows += block.rows as u64;
        for field in &block.fields {
            if !known.fields.iter().any(|name| name == field.name) {
                known.fields.push(field.name.to_owned());
            }
        }
        let (from, until) = block.times;
        let times = known
            .times
            .entry(page.boot)
            .or_insert((from, until, page.tick_ns));
        times.0 = times.0.min(from);
        times.1 = times.1.max(until);
    }
    let health = match shift {
        Some(_) => "good",
        None => "good, without a clock",
    };
    shown(Some(head), health.to_owned())
}

/// A time as a person reads it; ticks where nobody knows when they began.
fn time(ticks: i64, shift: Option<i64>, tick_ns: u32, boot: u32) -> String {
    let ns = shift
        .and_then(|shift| ticks.checked_add(shift))
        .and_then(|ticks| ticks.checked_mul(i64::from(tick_ns)));
    match ns {
        Some(ns) => DateTime::from_timestamp_nanos(ns).to_rfc3339_opts(SecondsFormat::AutoSi, true),
        None => format!("tick {ticks} of start {boot}"),
    }
}

impl Series {
    /// Its time range for each start of the device, `none` for those that it has no rows of.
    fn ranges(&self, clocks: &BTreeMap<u32, i64>) -> Vec<String> {
        let ranges = self.times.iter().map(|(boot, (from, until, tick_ns))| {
            let shift = match boot {
                0 => Some(0),
                boot => clocks.get(boot).copied(),
            };
            let shown = |ticks| time(ticks, shift, *tick_ns, *boot);
            format!("{} to {}", shown(*from), shown(*until))
        });
        ranges.collect()
    }
}

fn as_json(found: &Found) -> Value {
    let pages: Vec<Value> = found
        .pages
        .iter()
        .map(|page| {
            let mut shown = json!({
                "offset": page.offset,
                "bytes": page.bytes,
                "health": page.health,
            });
            if let Some(head) = &page.head {
                shown["sequence"] = head.sequence.into();
                shown["part"] = head.part.into();
                shown["source"] = head.source.into();
                shown["boot"] = head.boot.into();
                shown["rows"] = head.rows.into();
                shown["series"] = head.series.into();
                shown["from"] = head.from.clone().into();
                shown["until"] = head.until.clone().into();
            }
            shown
        })
        .collect();
    let series: Vec<Value> = found
        .series
        .iter()
        .map(|(key, series)| {
            json!({
                "key": key,
                "fields": series.fields,
                "pages": series.pages,
                "rows": series.rows,
                "times": series.ranges(&found.clocks),
            })
        })
        .collect();
    let clocks: BTreeMap<String, i64> = found
        .clocks
        .iter()
        .map(|(boot, shift)| (boot.to_string(), *shift))
        .collect();
    json!({
        "sector_bytes": found.sector_bytes,
        "sectors": found.sectors,
        "erases_min": found.erases.0,
        "erases_max": found.erases.1,
        "pages": pages,
        "series": series,
        "clocks": clocks,
        "unsealed_rows": found.hot_rows,
    })
}

fn as_text(found: &Found) -> String {
    let kinds = found.sectors.iter();
    let kinds: Vec<String> = kinds
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    let mut text = format!(
        "sectors of {} bytes: {}; erased {} to {} times\n",
        thousands(found.sector_bytes as u64),
        kinds.join(", "),
        found.erases.0,
        found.erases.1
    );
    for (boot, shift) in &found.clocks {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "start {boot}: clock {shift} ticks");
    }
    let mut pages = Table::new(&[
        "page", "at", "bytes", "part", "series", "rows", "from", "until", "health",
    ]);
    for page in &found.pages {
        let place = [thousands(page.offset as u64), thousands(page.bytes as u64)];
        let (number, rest) = match &page.head {
            None => ("?".to_owned(), std::array::from_fn(|_| "?".to_owned())),
            Some(head) => (
                head.sequence.to_string(),
                [
                    head.part.to_string(),
                    head.series.to_string(),
                    thousands(head.rows as u64),
                    head.from.clone(),
                    head.until.clone(),
                ],
            ),
        };
        let cells = std::iter::once(number).chain(place).chain(rest);
        pages.row(cells.chain([page.health.clone()]));
    }
    let mut series = Table::new(&["series", "fields", "pages", "rows", "times"]);
    for (key, known) in &found.series {
        series.row([
            key.clone(),
            known.fields.join(", "),
            thousands(known.pages),
            thousands(known.rows),
            known.ranges(&found.clocks).join("; "),
        ]);
    }
    let _ = write!(text, "\n{pages}\n{series}");
    if found.hot_rows > 0 {
        let _ = writeln!(
            text,
            "{} rows are in no page yet: the device seals them",
            thousands(found.hot_rows as u64)
        );
    }
    text
}
