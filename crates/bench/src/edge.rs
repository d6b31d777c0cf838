//! Suite `edge`: the library for microcontrollers beside `esp_idf_timeseries`'s published figures.
//!
//! Does: run the suite in C on a simulated flash, add the instructions that were counted on RISC-V, model times of both, and set them
//! beside what the reference publishes and what is asked of the library. Does not: measure time, or run anything on hardware.
//! Next: `edge/bench/ne_suite.c` for what is run, `edge/lines.rs` for the table, docs/guide/benchmark.md for how to read it.

mod figures;
mod lines;
mod simulated;

use serde::Serialize;

use crate::Result;
pub use figures::Figure;
use figures::Figures;
pub use lines::Line;

/// What the reference was run at, and what instructions are divided by.
const MEGAHERTZ: f64 = 160.0;

/// What stands beside every table of this suite.
pub const NOT_RUN: &str = "Nothing here was run on hardware. Operations of the flash are counted on a simulated one, instructions on RV32IMAC under QEMU (-O2, \
one instruction a cycle); times are modelled of both: 0.4 ms for each page of 256 bytes that a program touches, 45 ms for an erase of 4 KiB, 10 MB/s \
for reads (typical values of a W25Q32JV), 160 MHz. The reference's figures are those that it publishes, of an emulated ESP32 whose flash costs \
next to nothing; of its codec the table has what was counted by hand on the same processor too; its code is not run here.";

/// The suite's figures.
#[derive(Debug, Clone, Serialize)]
pub struct EdgeReport {
    /// What was counted, by name.
    pub figures: Figures,
    /// The reference's tests.
    pub published: Vec<Line>,
    /// Lines of a device's life that nobody publishes figures of.
    pub life: Vec<Line>,
}

/// Runs the suite.
pub fn edge() -> Result<EdgeReport> {
    let simulated = Figures::parse(&simulated::run()?)?;
    let counted = Figures::parse(simulated::COUNTED)?;
    let figures = simulated.with_instructions(&counted)?;
    Ok(EdgeReport {
        published: lines::published(&figures)?,
        life: lines::life(&figures)?,
        figures,
    })
}

impl EdgeReport {
    /// Both tables in Markdown, with what was not run.
    pub fn markdown(&self) -> String {
        let table = |lines: &[Line], second: &str| {
            let mut text = format!(
                "| test | {second} | Nilometer | counted | asked | |\n|---|---|---|---|---|---|\n"
            );
            for line in lines {
                text = format!("{text}| {} |\n", line.cells().join(" | "));
            }
            text
        };
        format!(
            "{NOT_RUN}\n\n{}\n{}",
            table(&self.published, "esp_idf_timeseries, published"),
            table(&self.life, "others"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Instructions were once counted of other sources than those that are measured: operations of the flash say so.
    #[test]
    fn instructions_are_those_of_the_operations_that_are_simulated() {
        let simulated = Figures::parse(&simulated::run().unwrap()).unwrap();
        let counted = Figures::parse(simulated::COUNTED).unwrap();
        for (name, figure) in simulated.iter() {
            let other = counted.get(name).unwrap();
            if !name.starts_with("arena_") {
                let same = Figure {
                    instructions: other.instructions,
                    worst_instructions: other.worst_instructions,
                    ..figure.clone()
                };
                assert_eq!(
                    &same, other,
                    "{name}: run edge/bench/count.sh FOLDER --write"
                );
            }
        }
    }

    /// By hand: 99 rows of 8 to 17 bytes, each a program; 99 pages and those that a second page was touched for.
    #[test]
    fn times_are_what_the_model_says() {
        let report = edge().unwrap();
        let single = report.figures.get("insert_single").unwrap();
        assert_eq!((single.programs, single.erases), (99, 0));
        // Five borders of pages have at least four pages between them.
        assert!((single.pages - 100) * 256 <= single.bytes && single.bytes < 99 * 18);
        let ms = single.pages as f64 * 0.4 + single.instructions as f64 / 160_000.0;
        assert!((single.ms() - ms).abs() < 0.001, "{} {ms}", single.ms());
        let erases = report.figures.get("seal_500_erases").unwrap();
        assert_eq!((erases.erases, erases.flash_us / 1000), (1, 45));
    }

    #[test]
    fn every_line_of_the_published_table_is_answered() {
        let report = edge().unwrap();
        assert_eq!(report.published.len(), 19);
        for line in report.published.iter().chain(&report.life) {
            assert!(
                line.cells()[..5].iter().all(|cell| !cell.is_empty()),
                "{line:?}"
            );
        }
        let text = report.markdown();
        assert!(
            text.contains("31.7 ms") && text.contains("not run"),
            "{text}"
        );
    }
}
