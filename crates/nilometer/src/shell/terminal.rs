//! The conversation at a terminal: lines with history, completion and several lines to a statement.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use reedline::{
    ColumnarMenu, Completer, CompletionResult, DefaultHinter, Emacs, FileBackedHistory, KeyCode,
    KeyModifiers, MenuBuilder, Prompt, PromptEditMode, PromptHistorySearch, Reedline,
    ReedlineEvent, ReedlineMenu, Signal, Span, Suggestion, ValidationResult, Validator,
    default_emacs_keybindings,
};

use super::complete::{Names, complete};
use super::split::{Item, is_complete, split_all};
use super::{Next, Shell, describe};
use crate::output::destination::Destination;
use crate::print;

/// Lines that the history keeps.
const HISTORY_LINES: usize = 10_000;

const MENU: &str = "completions";

/// Talks until the user leaves.
pub(crate) fn converse(shell: &mut Shell) -> anyhow::Result<()> {
    let names = SharedNames::default();
    names.refresh(shell);
    print::note(format!(
        "nilometer {} at {}. A statement ends with a semicolon; \\? lists commands, \\q leaves.\n",
        env!("CARGO_PKG_VERSION"),
        shell.source.name()
    ));
    let mut editor = editor(&names)?;
    loop {
        let line = DatabasePrompt(shell.database.clone());
        match editor
            .read_line(&line)
            .context("cannot read from the terminal")?
        {
            Signal::Success(text) if talk(shell, &text, &names)? == Next::Leave => return Ok(()),
            Signal::CtrlD => return Ok(()),
            // What was typed is thrown away, as in every shell.
            _ => {}
        }
    }
}

/// Carries out what was typed. Its errors are shown and end nothing.
fn talk(shell: &mut Shell, text: &str, names: &SharedNames) -> anyhow::Result<Next> {
    for item in split_all(text) {
        let mut out = Destination::open(None, shell.format)?;
        match shell.run(&item, out.writer()) {
            Ok(Next::Leave) => return Ok(Next::Leave),
            Ok(Next::GoOn) => {
                // The terminal itself went away; there is nobody left to tell.
                out.finish()?;
            }
            Err(error) => {
                out.finish()?;
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
            shell.source.clone(),
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
