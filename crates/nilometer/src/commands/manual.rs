//! `nilometer completions` and `nilometer man`, generated from the command line's definition.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Command};
use clap_complete::Shell;

use crate::print;

/// For which shell.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nilometer completions bash > nilometer.bash\n  nilometer completions zsh > _nilometer\n  nilometer completions fish > nilometer.fish"
)]
pub(crate) struct CompletionsArgs {
    /// Shell to complete for.
    #[arg(value_enum)]
    shell: Shell,
}

/// Where to.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  nilometer man > nilometer.1\n  nilometer man --output ./man1")]
pub(crate) struct ManArgs {
    /// Folder to write one page per command to; by default, the program's page goes to standard output.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

pub(crate) fn completions(args: &CompletionsArgs, mut program: Command) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut program, "nilometer", &mut script);
    Ok(print::raw(&script)?)
}

pub(crate) fn man(args: &ManArgs, program: Command) -> anyhow::Result<()> {
    match &args.output {
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(program).render(&mut page)?;
            Ok(print::raw(&page)?)
        }
        Some(dir) => {
            let write = || format!("cannot write to {}; choose another --output", dir.display());
            std::fs::create_dir_all(dir).with_context(write)?;
            clap_mangen::generate_to(program, dir).with_context(write)
        }
    }
}
