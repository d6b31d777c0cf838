//! `nilometer edge push`: the pages of an image to a server, as the device would send them.
//!
//! Does: ask how far the server has come, send what is missing, sign it, go on after a refusal that more pages at once caused. Does
//! not: send pages that are damaged or of an interrupted seal; their rows are lost, or come again in a later page.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use nilometer_codec::device_image::DeviceImage;
use nilometer_edge::{PATH, SIGNATURE_HEADER, signed_head};
use nilometer_service::DeviceKey;
use serde_json::Value;

use super::{ImageArgs, read};
use crate::client::{Refused, Server, ServerArgs};
use crate::print::{self, thousands};

/// How often a server that is busy is asked again.
const TRIES_MAX: u32 = 10;

/// What to send where.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nilometer edge push flash.img -d edge --device attic\n  nilometer edge push flash.img -d edge --device attic --store 2 --key-file attic.key --url https://db.example.org:8086"
)]
pub(crate) struct PushArgs {
    #[command(flatten)]
    image: ImageArgs,
    /// Database to write to, which must exist.
    #[arg(
        short = 'd',
        long,
        value_name = "NAME",
        env = "NILOMETER_DATABASE",
        default_value = "edge"
    )]
    database: String,
    /// Name of the device; its rows have it as a tag.
    #[arg(long, value_name = "NAME")]
    device: String,
    /// Number of the flash's life: a flash that was erased begins another one.
    #[arg(long, value_name = "N", default_value_t = 1)]
    store: u32,
    /// File with the key of the device, as `nilometer edge key` prints it.
    #[arg(long, value_name = "FILE", env = "NILOMETER_EDGE_KEY_FILE")]
    key_file: Option<PathBuf>,
    /// What to add to the ticks of a start of the device that had no clock, as START:TICKS; overrides what the image says.
    #[arg(long, value_name = "START:TICKS", value_delimiter = ',', value_parser = parse_clock)]
    clock: Vec<(u32, i64)>,
    /// Most bytes of pages in one request.
    #[arg(long, value_name = "BYTES", default_value_t = 256 << 10)]
    request_bytes: usize,
    #[command(flatten)]
    server: ServerArgs,
}

fn parse_clock(text: &str) -> Result<(u32, i64), String> {
    let parts = text.split_once(':');
    let clock = parts.and_then(|(boot, shift)| Some((boot.parse().ok()?, shift.parse().ok()?)));
    clock.ok_or_else(|| "write it as START:TICKS, such as 7:1700000000000".to_owned())
}

/// A page to send.
struct Page<'a> {
    sequence: u64,
    boot: u32,
    bytes: &'a [u8],
}

/// Where pages go.
struct Target<'a> {
    args: &'a PushArgs,
    server: Server,
    key: Option<DeviceKey>,
    clocks: std::collections::BTreeMap<u32, i64>,
}

/// What the server said.
struct Answered {
    acknowledged: u64,
    checksum: u64,
    rows: u64,
    refused: Option<Refused>,
}

pub(crate) fn run(args: &PushArgs) -> anyhow::Result<()> {
    let bytes = args.image.read()?;
    let image = DeviceImage::open(&bytes, args.image.sector_bytes)?;
    let mut pages = Vec::new();
    for found in image.pages() {
        match found.page {
            Ok(page) if found.counts => pages.push(Page {
                sequence: page.sequence,
                boot: page.boot,
                bytes: found.bytes,
            }),
            Ok(_) => {}
            Err(error) => print::note(format!(
                "the page at byte {} is left out: {error}\n",
                found.offset
            )),
        }
    }
    pages.sort_by_key(|page| page.sequence);
    let mut clocks = image.clocks();
    clocks.extend(args.clock.iter().copied());
    let key = args.key_file.as_ref().map(|path| {
        let text = String::from_utf8_lossy(&read(path)?).into_owned();
        DeviceKey::from_hex(&text).with_context(|| {
            format!(
                "{} has no key: it is 64 hexadecimal digits, as `nilometer edge key` prints them",
                path.display()
            )
        })
    });
    let target = Target {
        args,
        server: Server::new(&args.server)?,
        key: key.transpose()?,
        clocks,
    };
    let (sent, rows) = target.push(&pages)?;
    let last = pages.last().map_or(0, |page| page.sequence);
    print::line(format!(
        "{} pages with {} rows sent; {} has everything up to page {last}",
        thousands(sent),
        thousands(rows),
        target.server.url()
    ));
    let hot = image.hot_rows().rows;
    if hot > 0 {
        print::note(format!(
            "{} rows of the image are in no page yet; the device seals them\n",
            thousands(hot as u64)
        ));
    }
    Ok(())
}

impl Target<'_> {
    /// Sends what the server has not got. Returns how many pages and rows that was.
    fn push(&self, pages: &[Page<'_>]) -> anyhow::Result<(u64, u64)> {
        let begun = self.send(None, &[])?;
        if let Some(refused) = begun.refused {
            bail!("{}", refused.sentence(&self.server));
        }
        self.check_life(pages, &begun)?;
        let mut acknowledged = begun.acknowledged;
        let (mut sent, mut rows) = (0, 0);
        let mut bytes_max = self.args.request_bytes;
        loop {
            let left = pages.iter().filter(|page| page.sequence > acknowledged);
            let mut bytes = 0;
            let mut some: Vec<&Page<'_>> = Vec::new();
            for page in left {
                bytes += page.bytes.len();
                if !some.is_empty() && bytes > bytes_max {
                    break;
                }
                some.push(page);
            }
            if some.is_empty() {
                return Ok((sent, rows));
            }
            let answered = self.send(Some(acknowledged), &some)?;
            let taken = some
                .iter()
                .filter(|page| page.sequence <= answered.acknowledged);
            sent += taken.count() as u64;
            rows += answered.rows;
            let is_further = answered.acknowledged > acknowledged;
            acknowledged = acknowledged.max(answered.acknowledged);
            match answered.refused {
                // After a refusal fewer at once are within a limit, or show which page it is.
                _ if is_further => {}
                None => bail!(
                    "the server takes page {} and does not acknowledge it; is it an older version?",
                    some.first().map_or(0, |page| page.sequence)
                ),
                Some(_) if some.len() > 1 => bytes_max = 0,
                Some(refused) => bail!(
                    "page {} is not taken, the {} before it are stored: {}",
                    some.first().map_or(0, |page| page.sequence),
                    thousands(sent),
                    refused.sentence(&self.server)
                ),
            }
        }
    }

    /// Refuses pages of a flash that is not the one whose pages the server knows under this number.
    fn check_life(&self, pages: &[Page<'_>], begun: &Answered) -> anyhow::Result<()> {
        let (known, store) = (begun.acknowledged, self.args.store);
        let same = pages.iter().find(|page| page.sequence == known);
        let is_other = same.is_some_and(|page| checksum(page.bytes) != begun.checksum);
        let newest = pages.last().map_or(0, |page| page.sequence);
        if is_other || (newest > 0 && newest < known) {
            bail!(
                "the server has pages up to {known} of store {store} of device {:?}, and the image {}; if the flash was erased since, give it the next number: --store {}",
                self.args.device,
                if is_other {
                    "has another page of this number".to_owned()
                } else {
                    format!("has pages up to {newest} only")
                },
                store.saturating_add(1)
            );
        }
        Ok(())
    }

    /// One request; asked again while the server is busy.
    fn send(&self, after: Option<u64>, pages: &[&Page<'_>]) -> anyhow::Result<Answered> {
        let parts: Vec<&[u8]> = pages.iter().map(|page| page.bytes).collect();
        let body = parts.concat();
        let mut boots: Vec<u32> = pages.iter().map(|page| page.boot).collect();
        boots.sort_unstable();
        boots.dedup();
        let clocks = boots.iter().filter_map(|boot| {
            let shift = self.clocks.get(boot)?;
            Some(format!("{boot}:{shift}"))
        });
        let clocks: Vec<String> = clocks.collect();
        let (store, clock) = (self.args.store.to_string(), clocks.join(","));
        let after = after.map_or_else(String::new, |after| after.to_string());
        let names = ["db", "device", "store", "after", "clock"];
        let values = [
            self.args.database.as_str(),
            &self.args.device,
            &store,
            &after,
            &clock,
        ];
        let parameters: Vec<(&str, &str)> = names.into_iter().zip(values).collect();
        let signature = self
            .key
            .as_ref()
            .map(|key| key.sign(&[signed_head(values).as_bytes(), &body]));
        let mut headers = vec![("Content-Type", "application/octet-stream")];
        if let Some(signature) = &signature {
            headers.push((SIGNATURE_HEADER, signature));
        }
        let mut tries = 0;
        loop {
            tries += 1;
            let response = self.server.post(PATH, &parameters, &headers, &body)?;
            if response.status() == 200 {
                let mut body = response.into_body();
                let text = body.read_to_string().context("the answer broke off")?;
                let json: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
                return answered(&json, None);
            }
            let refused = Refused::of(response);
            if refused.status == 503 && tries < TRIES_MAX {
                std::thread::sleep(refused.retry_after.unwrap_or(Duration::from_secs(1)));
                continue;
            }
            let json = refused.body.clone();
            if refused.number("acknowledged").is_none() {
                bail!("{}", refused.sentence(&self.server));
            }
            return answered(&json, Some(refused));
        }
    }
}

fn answered(json: &Value, refused: Option<Refused>) -> anyhow::Result<Answered> {
    let number = |member: &str| json.get(member).and_then(Value::as_u64);
    let acknowledged = number("acknowledged");
    Ok(Answered {
        acknowledged: acknowledged.context(
            "the answer does not say how far the server has come; is it a Nilometer server?",
        )?,
        checksum: number("checksum").unwrap_or(0),
        rows: number("rows").unwrap_or(0),
        refused,
    })
}

/// The checksum that a page ends with.
fn checksum(page: &[u8]) -> u64 {
    let last = page.last_chunk();
    last.map_or(0, |bytes| u64::from(u32::from_le_bytes(*bytes)))
}
