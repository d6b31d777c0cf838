//! The shell at a terminal: lines with history, completion and several lines to a statement.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, bail};
use reedline::{
    ColumnarMenu, Completer, CompletionResult, DefaultHinter, EditCommand, Emacs,
    FileBackedHistory, HistoryItem, KeyCode, KeyModifiers, MenuBuilder, Prompt, PromptEditMode,
    PromptHistorySearch, Reedline, ReedlineEvent, ReedlineMenu, Signal, Span, Suggestion,
    ValidationResult, Validator, default_emacs_keybindings,
};

use super::command::{self, Command};
use super::complete::{Names, complete};
use super::interrupt::{Cancelled, Interrupt};
use super::split::{Item, Split, is_complete, split, split_all};
use super::tag::tag;
use super::{Next, Shell, describe};
use crate::output::destination::{Destination, is_closed_pipe};
use crate::output::pager::Pager;
use crate::print;

/// Lines that the history keeps.
const HISTORY_LINES: usize = 10_000;

const MENU: &str = "completions";

/// Reads and runs lines until the user leaves.
pub(crate) fn converse(shell: &mut Shell) -> anyhow::Result<()> {
    shell.interrupt = Interrupt::listen()?;
    let names = SharedNames::default();
    names.refresh(shell);
    print::note(format!(
        "nilometer {} at {}. A statement ends with a semicolon; help lists the commands, exit leaves.\n",
        env!("CARGO_PKG_VERSION"),
        shell.source.name()
    ));
    let mut editor = editor(&names)?;
    loop {
        let line = DatabasePrompt(shell.database.clone());
        let read = editor
            .read_line(&line)
            .context("cannot read from the terminal")?;
        let next = match read {
            Signal::Success(text) => run_line(shell, &text, &names, &mut editor)?,
            Signal::CtrlD => Next::Leave,
            // What was typed is thrown away, as in every shell.
            _ => Next::GoOn,
        };
        if next == Next::Leave {
            return shell.close();
        }
    }
}

/// Runs what was typed. Its errors are shown and end nothing.
fn run_line(
    shell: &mut Shell,
    text: &str,
    names: &SharedNames,
    editor: &mut Reedline,
) -> anyhow::Result<Next> {
    for item in split_all(text) {
        let command = match &item {
            Item::Command(text) => command::parse(text).ok(),
            Item::Statement(_) => None,
        };
        if command == Some(Command::Edit) {
            match edited(shell) {
                Ok(Some(text)) => return run_edited(shell, &text, names, editor),
                Ok(None) => print::note("nothing was changed, and nothing runs\n"),
                Err(error) => print::error(&error),
            }
            break;
        }
        let mut out = match command {
            // What is repeated is watched as it comes.
            Some(Command::Watch { .. }) => Destination::open(None, shell.format)?,
            _ => Destination::Pager(Pager::new(Pager::program().filter(|_| shell.pager))),
        };
        let ran = shell.run(&item, out.writer());
        // Whoever left the pager has seen enough.
        let shown = out.finish();
        match ran.and_then(|next| shown.map(|()| next)) {
            Ok(Next::Leave) => return Ok(Next::Leave),
            Ok(Next::GoOn) => {}
            Err(error) if is_closed_pipe(&error) => {}
            Err(error) if error.is::<Cancelled>() => {
                print::note(cancelled(&item));
                break;
            }
            Err(error) => {
                print::error(&error);
                break;
            }
        }
        if changes_names(&item) {
            names.refresh(shell);
        }
    }
    Ok(Next::GoOn)
}

/// What is said of a statement that Ctrl-C ended.
fn cancelled(item: &Item) -> &'static str {
    match item {
        Item::Statement(text) if tag(text).is_some() => {
            "cancelled; it may have been carried out all the same, so look before you repeat it\n"
        }
        _ => "cancelled\n",
    }
}

/// The last statement as the user's editor leaves it; `None` = as it was.
fn edited(shell: &Shell) -> anyhow::Result<Option<String>> {
    let before = shell
        .last_statement()
        .map_or_else(String::new, |statement| format!("{statement};\n"));
    let file = tempfile::Builder::new()
        .prefix("nilometer-")
        .suffix(".sql")
        .tempfile()
        .context("cannot make a file to edit")?;
    let path = file.path();
    std::fs::write(path, &before).with_context(|| format!("cannot write {}", path.display()))?;
    let program = ["VISUAL", "EDITOR"]
        .into_iter()
        .filter_map(|name| std::env::var(name).ok())
        .find(|program| !program.trim().is_empty())
        .unwrap_or_else(|| "vi".to_owned());
    // Through a shell, because the variables may hold arguments too.
    let status = std::process::Command::new("sh")
        .arg("-c")
        .arg(format!("{program} \"$1\""))
        .arg("sh")
        .arg(path)
        .status();
    let status = status.with_context(|| format!("cannot start the editor {program}"))?;
    if !status.success() {
        bail!("the editor {program} ended with {status}; set EDITOR to another, and nothing runs");
    }
    let after = std::fs::read_to_string(path);
    let after = after.with_context(|| format!("cannot read {}", path.display()))?;
    Ok((after.trim() != before.trim()).then_some(after))
}

/// Runs the statements of an edited text that have ended. The rest stands in the next line, to be gone on with.
fn run_edited(
    shell: &mut Shell,
    text: &str,
    names: &SharedNames,
    editor: &mut Reedline,
) -> anyhow::Result<Next> {
    let Split { items, rest } = split(text);
    let rest = rest.trim();
    let ended = text.trim_end().strip_suffix(rest).unwrap_or(text).trim();
    if !rest.is_empty() {
        editor.run_edit_commands(&[EditCommand::InsertString(rest.to_owned())]);
    }
    // Another round of editing would not see what comes of this one.
    if items.contains(&Item::Command("e".to_owned())) {
        return Ok(Next::GoOn);
    }
    if ended.is_empty() {
        return Ok(Next::GoOn);
    }
    print::line(ended);
    let history = editor.history_mut();
    drop(history.save(HistoryItem::from_command_line(ended)));
    run_line(shell, ended, names, editor)
}

fn changes_names(item: &Item) -> bool {
    let (text, words): (&str, &[&str]) = match item {
        Item::Statement(text) => (text, &["create", "drop", "alter", "insert"]),
        Item::Command(text) => (text, &["c", "connect", "i"]),
    };
    let first = text.split_whitespace().next().unwrap_or_default();
    words.iter().any(|word| first.eq_ignore_ascii_case(word))
}

/// Names that are asked for in the background, so that nobody waits for them.
#[derive(Debug, Clone, Default)]
struct SharedNames(Arc<Mutex<Names>>);

impl SharedNames {
    fn refresh(&self, shell: &Shell) {
        let (names, source, database) = (
            Arc::clone(&self.0),
            shell.source.reconnected(),
            shell.database.clone(),
        );
        std::thread::spawn(move || {
            let fresh = describe::names(&source, &database);
            *names.lock().unwrap_or_else(PoisonError::into_inner) = fresh;
        });
    }
}

impl Completer for SharedNames {
    fn complete(&mut self, line: &str, cursor: usize) -> CompletionResult {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (begin, found) = complete(&names, line, cursor);
        let suggestions: Vec<Suggestion> = found
            .into_iter()
            .map(|it| Suggestion {
                append_whitespace: !it.text.ends_with('('),
                value: it.text,
                description: Some(it.what.to_owned()),
                span: Span::new(begin.min(cursor), cursor),
                ..Suggestion::default()
            })
            .collect();
        CompletionResult::fresh(suggestions)
    }
}

struct UntilSemicolon;

impl Validator for UntilSemicolon {
    fn validate(&self, text: &str) -> ValidationResult {
        if is_complete(text) {
            ValidationResult::Complete
        } else {
            ValidationResult::Incomplete
        }
    }
}

struct DatabasePrompt(String);

impl Prompt for DatabasePrompt {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.0)
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _mode: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed("> ")
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed("... ")
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        Cow::Owned(format!("(history: {}) ", search.term))
    }
}

fn editor(names: &SharedNames) -> anyhow::Result<Reedline> {
    let mut keys = default_emacs_keybindings();
    keys.add_binding(
        KeyModifiers::NONE,
        KeyCode::Tab,
        ReedlineEvent::UntilFound(vec![
            ReedlineEvent::Menu(MENU.to_owned()),
            ReedlineEvent::MenuNext,
        ]),
    );
    keys.add_binding(
        KeyModifiers::SHIFT,
        KeyCode::BackTab,
        ReedlineEvent::MenuPrevious,
    );
    let menu = ColumnarMenu::default().with_name(MENU);
    let mut editor = Reedline::create()
        .with_completer(Box::new(names.clone()))
        .with_menu(ReedlineMenu::EngineCompleter(Box::new(menu)))
        .with_edit_mode(Box::new(Emacs::new(keys)))
        .with_hinter(Box::new(DefaultHinter::default()))
        .with_validator(Box::new(UntilSemicolon));
    if let Some(path) = history_path() {
        let history = FileBackedHistory::with_file(HISTORY_LINES, path.clone())
            .with_context(|| format!("cannot use the history in {}; set NILOMETER_HISTORY to another file, or to nothing", path.display()))?;
        editor = editor.with_history(Box::new(history));
    }
    Ok(editor)
}

/// Where the history is kept: what the environment says, else where such files go; `None` = nowhere.
fn history_path() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("NILOMETER_HISTORY") {
        return (!path.is_empty()).then(|| PathBuf::from(path));
    }
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let state =
        state.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state")))?;
    Some(state.join("nilometer").join("history"))
}
