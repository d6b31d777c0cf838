//! The shell at a terminal: Ctrl-C, the ways to leave, the pager, the editor.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::support::{Scratch, Terminal, nilometer, wait_for};

/// 120 rows, so that five of it joined take longer than anybody waits.
fn scratch() -> Scratch {
    let lines = (0..120)
        .map(|n| format!("cpu busy={n} {}\n", n * 60_000_000_000u64))
        .collect::<Vec<_>>()
        .concat();
    Scratch::with(&lines)
}

const ENDLESS: &str = "select count(*) from cpu a, cpu b, cpu c, cpu d, cpu e where a.busy * b.busy + c.busy * d.busy + e.busy < 0;";

impl Scratch {
    fn shell(&self, variables: &[(&str, &str)]) -> Terminal {
        let arguments = format!("sql -d d --url {}", self.server.url());
        Terminal::start(self.path(), &arguments, variables)
    }

    /// Statements that the server runs, beside the one that asks.
    fn running(&self) -> usize {
        let rows = self
            .server
            .query("d", "select query_id from system.queries");
        rows.len() - 1
    }
}

/// Leaves the shell and looks at its status.
fn leave(mut terminal: Terminal, how: &str) -> String {
    terminal.line(how);
    let (status, shown) = terminal.ends();
    assert_eq!(status, Some(0), "{how}: {shown}");
    shown
}

// Ctrl-C during a query ended the whole shell, and with it what was typed before.
#[test]
fn ctrl_c_ends_the_query_on_the_server_too_and_stays_in_the_shell() {
    let scratch = scratch();
    let mut terminal = scratch.shell(&[]);
    terminal.line(ENDLESS);
    wait_for("the query to run", || {
        (scratch.running() == 1).then_some(())
    });
    terminal.keys("\x03");
    terminal.shows("cancelled");
    wait_for("the query to end", || {
        (scratch.running() == 0).then_some(())
    });
    terminal.line("select 6 * 7 as answer;");
    terminal.shows(" 42 ");
    leave(terminal, "exit");
}

#[test]
fn ctrl_c_ends_a_query_of_a_data_directory() {
    let scratch = scratch();
    let Scratch { dir, server } = scratch;
    server.stop();
    let mut terminal = Terminal::start(dir.path(), "sql -d d --data data", &[]);
    terminal.line(ENDLESS);
    // What was typed is followed by a new line, and then nothing comes until the key.
    terminal.shows("< 0;");
    terminal.shows("\n");
    // Pressed before the query runs it is thrown away with the line, so it is pressed again if it was not heard.
    wait_for("the query to end", || {
        terminal.keys("\x03");
        terminal.shows_soon("cancelled").then_some(())
    });
    terminal.line("select 6 * 7 as answer;");
    terminal.shows(" 42 ");
    leave(terminal, "\\q");
}

#[test]
fn exit_quit_and_backslash_q_leave_and_help_lists_every_command() {
    let scratch = scratch();
    for way in ["exit", "quit;", "\\q"] {
        leave(scratch.shell(&[]), way);
    }
    let mut terminal = scratch.shell(&[("PAGER", "")]);
    terminal.line("help");
    let shown = terminal.shows("run the statements in a file");
    for command in [
        "\\x", "\\o", "\\watch", "\\timing", "\\e", "\\pager", "\\q", "exit",
    ] {
        assert!(shown.contains(command), "no {command} in {shown}");
    }
    terminal.shows("> ");
    terminal.keys("\x04");
    let (status, shown) = terminal.ends();
    assert_eq!(status, Some(0), "{shown}");
}

// A long answer ran over the terminal until it ended.
#[test]
fn an_answer_of_more_than_a_screen_goes_through_the_pager_and_a_short_one_does_not() {
    let scratch = scratch();
    let mut terminal = scratch.shell(&[("PAGER", "sed -n 's/^(120 rows)$/paged all/p'")]);
    terminal.line("select busy from cpu;");
    terminal.shows("paged all");
    terminal.line("select 6 * 7 as answer;");
    terminal.shows(" 42 ");
    terminal.line("\\pager off");
    terminal.line("select busy from cpu;");
    terminal.shows("(120 rows)");
    leave(terminal, "exit");
    // A pager that has seen enough is no error.
    let mut terminal = scratch.shell(&[("PAGER", "head -n 1")]);
    terminal.line("select a.busy from cpu a, cpu b, cpu c;");
    let shown = leave(terminal, "exit");
    assert!(!shown.contains("error"), "{shown}");
}

#[test]
fn the_editor_has_the_last_statement_and_what_it_leaves_runs() {
    let scratch = scratch();
    let editor = scratch.path().join("editor");
    scratch.file("editor", b"#!/bin/sh\nsed -i 's/6 . 7/60 * 7/' \"$1\"\n");
    executable(&editor);
    let editor = editor.to_str().expect("a path that is text");
    let mut terminal = scratch.shell(&[("EDITOR", editor), ("VISUAL", "")]);
    terminal.line("select 6 * 7 as answer;");
    terminal.shows(" 42 ");
    terminal.line("\\e");
    terminal.shows("select 60 * 7 as answer;");
    terminal.shows(" 420 ");
    // Now there is nothing to replace, and what was not changed does not run.
    terminal.line("\\e");
    terminal.shows("nothing was changed");
    leave(terminal, "exit");
}

fn executable(path: &Path) {
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(path, mode).expect("a file of a test's own");
}

#[test]
fn watch_repeats_the_last_statement_until_ctrl_c() {
    let scratch = scratch();
    let mut terminal = scratch.shell(&[]);
    terminal.line("select count(*) as n from cpu;");
    terminal.shows(" 120 ");
    terminal.line("\\watch 0.01");
    terminal.shows(" 120 ");
    let written = scratch.server.write("d", "cpu busy=1 9000000000000000");
    assert_eq!(written.status, 204);
    terminal.shows(" 121 ");
    terminal.keys("\x03");
    leave(terminal, "exit");
    // In a script it needs a count.
    let url = scratch.server.url();
    let flags = ["sql", "-d", "d", "--url", url, "--format", "csv"];
    let script = ["-c", "select 1 as one; \\watch 0 c=2"];
    let out = nilometer(scratch.path(), &[&flags[..], &script].concat()).succeeded();
    assert_eq!(out, "one\n1\none\n1\none\n1\n");
}
