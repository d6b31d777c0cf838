//! Links inside the repository lead somewhere.
//!
//! Does: follow each relative link of a Markdown page to its file and, in Markdown, to its heading; follow the pages that
//! comments in Rust sources name.
//! Does not: visit the web, or read links in code blocks.

use std::collections::BTreeMap;

use crate::tree::{File, Finding, Tree, extension_of};
use crate::workspace::Workspace;

/// A link and the line it stands on, counted from 1.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) line: usize,
    pub(crate) target: String,
}

pub(crate) fn check(tree: &Tree, _workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        let Some(text) = file.text() else { continue };
        if file.is_markdown() {
            for link in links_of(text) {
                if let Some(message) = complaint(tree, file, &link.target) {
                    findings.push(Finding::new(file.path.clone(), link.line, message));
                }
            }
        } else if file.is_rust() {
            findings.extend(check_comments(tree, file, text));
        }
    }
    findings
}

/// The relative links of a page, in order.
pub(crate) fn links_of(text: &str) -> Vec<Link> {
    let mut links = Vec::new();
    for (line, content) in prose_lines(text) {
        let content = blank_code_spans(content);
        let mut rest = content.as_str();
        while let Some(at) = rest.find("](") {
            rest = &rest[at + 2..];
            let target = inline_target(rest);
            links.push(Link {
                line,
                target: target.to_owned(),
            });
        }
        if let Some(target) = definition_target(&content) {
            links.push(Link {
                line,
                target: target.to_owned(),
            });
        }
    }
    links.retain(|link| is_relative(&link.target));
    links
}

/// The path that `target`, written on the page `from`, names in the tree; `None` if it leaves the repository.
pub(crate) fn resolve(from: &str, target: &str) -> Option<String> {
    let path = target.split(['#', '?']).next().unwrap_or_default();
    if path.is_empty() {
        return Some(from.to_owned());
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            _ => parts.push(part),
        }
    }
    Some(parts.join("/").replace("%20", " "))
}

fn complaint(tree: &Tree, file: &File, target: &str) -> Option<String> {
    if target.starts_with('/') {
        return Some(format!(
            "the link `{target}` begins at the root of a host; write it relative to this page"
        ));
    }
    let Some(path) = resolve(&file.path, target) else {
        return Some(format!(
            "the link `{target}` leaves the repository; link to something inside it"
        ));
    };
    if !tree.exists(&path) {
        return Some(format!(
            "the link `{target}` leads nowhere: there is no `{path}`; correct it or add the file"
        ));
    }
    let (_, anchor) = target.split_once('#')?;
    let page = tree
        .file(&path)
        .filter(|page| page.is_markdown())
        .and_then(File::text)?;
    if anchors_of(page).iter().any(|known| known == anchor) {
        return None;
    }
    Some(format!(
        "the link `{target}` leads nowhere: `{path}` has no heading `#{anchor}`; correct it or add the heading"
    ))
}

fn check_comments(tree: &Tree, file: &File, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if !line.trim_start().starts_with("//") {
            continue;
        }
        let words = line.split(|c: char| !(c.is_ascii_alphanumeric() || "/._-".contains(c)));
        for word in words.map(|word| word.trim_end_matches('.')) {
            if word.starts_with("docs/") && extension_of(word) == "md" && !tree.exists(word) {
                findings.push(Finding::new(file.path.clone(), at + 1, format!("the comment names `{word}`, which does not exist; correct it or write the page")));
            }
        }
    }
    findings
}

/// Lines outside fenced code blocks, counted from 1.
fn prose_lines(text: &str) -> Vec<(usize, &str)> {
    let mut fence: Option<&str> = None;
    let mut lines = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let start = line.trim_start();
        let mark = ["```", "~~~"]
            .into_iter()
            .find(|mark| start.starts_with(mark));
        match (fence, mark) {
            (None, Some(opened)) => fence = Some(opened),
            (Some(opened), Some(mark)) if mark == opened => fence = None,
            (None, None) => lines.push((at + 1, line)),
            (Some(_), _) => {}
        }
    }
    lines
}

fn blank_code_spans(line: &str) -> String {
    let mut inside = false;
    let blank = |c: char| {
        if c == '`' {
            inside = !inside;
            ' '
        } else if inside {
            ' '
        } else {
            c
        }
    };
    // A lone backtick is text; blanking to the end of the line would hide links.
    if line.matches('`').count().is_multiple_of(2) {
        line.chars().map(blank).collect()
    } else {
        line.to_owned()
    }
}

/// What stands between `](` and its closing parenthesis, without a title.
fn inline_target(rest: &str) -> &str {
    let mut depth = 0_usize;
    let end = rest.find(|c| {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => return true,
            ')' => depth -= 1,
            _ => {}
        }
        false
    });
    bare_target(&rest[..end.unwrap_or(rest.len())])
}

/// The target of `[name]: target`.
fn definition_target(line: &str) -> Option<&str> {
    let (name, target) = line.strip_prefix('[')?.split_once("]:")?;
    (!name.contains(']')).then(|| bare_target(target))
}

fn bare_target(text: &str) -> &str {
    let text = text.trim();
    match text.strip_prefix('<') {
        Some(inner) => inner.split('>').next().unwrap_or_default(),
        None => text.split_whitespace().next().unwrap_or_default(),
    }
}

fn is_relative(target: &str) -> bool {
    let scheme = target.split_once(':').is_some_and(|(scheme, _)| {
        scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+.-".contains(c))
    });
    !target.is_empty() && !scheme && !target.starts_with("//")
}

/// The anchors of a page, as the usual Markdown renderers derive them from its headings.
fn anchors_of(text: &str) -> Vec<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors = Vec::new();
    for (_, line) in prose_lines(text) {
        for attribute in ["id=\"", "name=\""] {
            anchors.extend(
                line.split(attribute)
                    .skip(1)
                    .filter_map(|rest| rest.split('"').next())
                    .map(str::to_owned),
            );
        }
        let title = line.trim_start_matches('#');
        let depth = line.len() - title.len();
        if !(1..=6).contains(&depth) || !title.starts_with(' ') {
            continue;
        }
        let slug = slug_of(title.trim().trim_end_matches('#').trim_end());
        let count = seen.entry(slug.clone()).or_default();
        anchors.push(if *count == 0 {
            slug
        } else {
            format!("{slug}-{count}")
        });
        *count += 1;
    }
    anchors
}

fn slug_of(title: &str) -> String {
    let mut visible = String::new();
    let mut rest = title;
    // Of a link in a heading only the text remains.
    while let Some((before, after)) = rest.split_once("](") {
        visible.push_str(before);
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    visible.push_str(rest);
    let kept = visible
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase)
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::texts;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        texts(&check(&Tree::of(files), &Workspace::default()))
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        let page = "[a](guide/b.md) [c](guide/b.md#two-words \"title\") ![d](<guide/e f.png>) [g](guide) [h](#top)\n\n# Top\n\n[x]: ../README.md\n";
        let other = "## Two words\n";
        let files = [
            ("docs/a.md", page),
            ("docs/guide/b.md", other),
            ("docs/guide/e f.png", ""),
            ("README.md", ""),
        ];
        assert_eq!(found(&files), Vec::<String>::new());
    }

    #[test]
    fn a_dead_link_is_found_at_its_line() {
        let found = found(&[("docs/a.md", "fine\n\nsee [b](b.md).\n")]);
        assert_eq!(found.len(), 1);
        assert!(
            found[0]
                .starts_with("docs/a.md:3: the link `b.md` leads nowhere: there is no `docs/b.md`"),
            "{found:?}"
        );
    }

    #[test]
    fn a_dead_anchor_a_dead_definition_and_a_way_out_are_found() {
        for page in [
            "[a](#none)\n# Some\n",
            "[a](b.md#none)\n",
            "[x]: none.md\n",
            "[a](../x.md)\n",
            "[a](/b.md)\n",
            "[`a`](none.md)\n",
        ] {
            assert_eq!(
                found(&[("a.md", page), ("b.md", "# Some\n")]).len(),
                1,
                "{page:?}"
            );
        }
    }

    #[test]
    fn the_web_and_code_are_left_alone() {
        let page = "[a](https://example.org/x.md) [m](mailto:a@example.org) `[a](none.md)`\n```\n[a](none.md)\n~~~\n[b](none.md)\n```\n";
        assert_eq!(found(&[("a.md", page)]), Vec::<String>::new());
        assert_eq!(
            found(&[("a.md", "```\n```\n[a](none.md)\n")]).len(),
            1,
            "a closed block must not hide what follows"
        );
    }

    #[test]
    fn headings_become_anchors_as_renderers_make_them() {
        let page = "# A `b`, c!\n## Same\n## Same\n### [Link](x.md) here\n#no heading\n<a id=\"own\"></a>\n";
        assert_eq!(
            anchors_of(page),
            ["a-b-c", "same", "same-1", "link-here", "own"]
        );
    }

    #[test]
    fn a_comment_that_names_a_missing_page_is_found() {
        let source = "//! See docs/format/page.md.\n//! And docs/format/none.md, too.\nconst A: &str = \"docs/other.md\";\n";
        let found = found(&[("crates/a/src/lib.rs", source), ("docs/format/page.md", "")]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("crates/a/src/lib.rs:2:"), "{found:?}");
    }

    #[test]
    fn parentheses_inside_a_target_belong_to_it() {
        assert_eq!(
            links_of("[a](b(1).md) x)"),
            [Link {
                line: 1,
                target: "b(1).md".to_owned()
            }]
        );
    }
}
