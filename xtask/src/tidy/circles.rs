//! Circles of files: no crate has a large group of files that all import each other, directly or by way of others.
//!
//! Does: read the paths of each file of `src` (`use`, and `crate::`, `super::`, `self::` or a child module in the code), follow
//! re-exports to the file that defines a name, and compare the largest circle of each crate with the bound.
//! Does not: understand Rust; methods that are called without a path are not seen, nor are test modules.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::{Finding, Tree, without_test_tail};
use crate::workspace::{Crate, Workspace};

use paths::{Import, Source};

mod paths;

/// A module with its parts may be a circle; more files than these are a design that nobody can read from one end.
const FILES_MAX: usize = 5;

/// A module: the names of the path to it, without `crate`.
type Module = Vec<String>;

pub(crate) fn check(tree: &Tree, workspace: &Workspace) -> Vec<Finding> {
    workspace
        .crates
        .iter()
        .filter_map(|krate| check_crate(tree, krate))
        .collect()
}

/// The largest circle of each crate, each file with the files of the circle that it imports.
pub(crate) fn describe(tree: &Tree, workspace: &Workspace) -> String {
    let mut lines = Vec::new();
    for krate in &workspace.crates {
        let Some(files) = Files::read(tree, krate) else {
            continue;
        };
        let circle = files.largest_circle();
        if circle.len() > 1 {
            lines.push(format!("{}: {} files\n", krate.name, circle.len()));
        }
        for (module, path) in &files.paths {
            if circle.len() > 1 && circle.contains(path) {
                let used = files.used_by(module).into_iter().map(|m| files.paths[m]);
                let used: Vec<&str> = used.filter(|path| circle.contains(path)).collect();
                lines.push(format!("  {path} -> {}\n", used.join(", ")));
            }
        }
    }
    lines.concat()
}

fn check_crate(tree: &Tree, krate: &Crate) -> Option<Finding> {
    let files = Files::read(tree, krate)?;
    let largest = files.largest_circle();
    if largest.len() <= FILES_MAX {
        return None;
    }
    let message = format!(
        "{} files of `{}` import each other in a circle, and {FILES_MAX} may: move what they share into a file of its own that imports none of them. The circle: {}",
        largest.len(),
        krate.name,
        largest.join(", ")
    );
    let place = largest.first().copied().unwrap_or(&krate.root_source);
    Some(Finding::new(place, 1, message))
}

/// The modules of a crate that are files.
struct Files<'a> {
    modules: BTreeMap<Module, Source>,
    paths: BTreeMap<Module, &'a str>,
}

impl<'a> Files<'a> {
    fn read(tree: &'a Tree, krate: &Crate) -> Option<Self> {
        let (folder, _) = krate.root_source.rsplit_once('/')?;
        let mut modules = BTreeMap::new();
        let mut paths = BTreeMap::new();
        for file in &tree.files {
            let Some(inside) = file.path.strip_prefix(folder) else {
                continue;
            };
            if !file.is_rust() || file.is_test_code() {
                continue;
            }
            // A program beside a library imports it as any other crate does.
            if inside == "/main.rs" && file.path != krate.root_source {
                continue;
            }
            let module = module_of(inside);
            let code = without_test_tail(file.text().unwrap_or_default());
            modules.insert(module.clone(), Source::read(code));
            paths.insert(module, file.path.as_str());
        }
        Some(Self { modules, paths })
    }

    /// The file that defines what `path` names, seen from `module`; nothing if it is not of this crate.
    fn defined_in(&self, module: &Module, path: &[String], depth: usize) -> Option<&Module> {
        let mut at = match path.first()?.as_str() {
            "crate" => Module::new(),
            "self" => module.clone(),
            "super" => parent(module)?,
            name => {
                let mut child = module.clone();
                child.push(name.to_owned());
                return if self.modules.contains_key(&child) {
                    let mut full = vec!["self".to_owned()];
                    full.extend_from_slice(path);
                    self.defined_in(module, &full, depth)
                } else {
                    self.imported(module, module, path, depth)
                };
            }
        };
        let mut rest = &path[1..];
        while rest.first().is_some_and(|name| name == "super") {
            at = parent(&at)?;
            rest = &rest[1..];
        }
        while let Some(name) = rest.first() {
            at.push(name.clone());
            if !self.modules.contains_key(&at) {
                at.pop();
                break;
            }
            rest = &rest[1..];
        }
        let imported = if rest.is_empty() {
            None
        } else {
            self.imported(module, &at, rest, depth)
        };
        imported.or_else(|| self.modules.get_key_value(&at).map(|(module, _)| module))
    }

    /// What a name of `module` is, if the module has it from elsewhere and `user` may see that.
    fn imported(
        &self,
        user: &Module,
        module: &Module,
        path: &[String],
        depth: usize,
    ) -> Option<&Module> {
        // Longer chains of re-exports are loops.
        let depth = depth.checked_sub(1)?;
        let name = path.first()?;
        let source = self.modules.get(module)?;
        let is_inside = user.starts_with(module);
        let import = source
            .imports
            .iter()
            .find(|import| import.name == *name && (import.is_public || is_inside))?;
        // `use engine::...` of a child has the child's name first, and would come back here.
        if import.path.first() == Some(name) && !self.is_child(module, name) {
            return None;
        }
        let mut full = import.path.clone();
        full.extend_from_slice(&path[1..]);
        self.defined_in(module, &full, depth)
    }

    fn is_child(&self, module: &Module, name: &str) -> bool {
        let mut child = module.clone();
        child.push(name.to_owned());
        self.modules.contains_key(&child)
    }

    fn used_by<'b>(&'b self, module: &'b Module) -> BTreeSet<&'b Module> {
        const DEPTH: usize = 8;
        let source = &self.modules[module];
        // A re-export is no use: whoever follows it is counted.
        let used = |import: &&Import| !import.is_public || source.mentions(&import.name);
        let imports = source.imports.iter().filter(used).map(|i| &i.path);
        imports
            .chain(&source.mentioned)
            .filter_map(|path| self.defined_in(module, path, DEPTH))
            .filter(|used| *used != module)
            .collect()
    }

    /// The paths of the files of the largest circle, sorted.
    fn largest_circle(&self) -> Vec<&'a str> {
        let names: Vec<&Module> = self.modules.keys().collect();
        let number: BTreeMap<&Module, usize> =
            names.iter().enumerate().map(|(at, m)| (*m, at)).collect();
        let uses: Vec<Vec<usize>> = names
            .iter()
            .map(|module| self.used_by(module).iter().map(|m| number[m]).collect())
            .collect();
        let circles = circles(&uses);
        let Some(largest) = circles.iter().max_by_key(|circle| circle.len()) else {
            return Vec::new();
        };
        let mut paths: Vec<&str> = largest.iter().map(|at| self.paths[names[*at]]).collect();
        paths.sort_unstable();
        paths
    }
}

fn module_of(inside: &str) -> Module {
    let path = inside.trim_start_matches('/').trim_end_matches(".rs");
    let mut names: Module = path.split('/').map(str::to_owned).collect();
    if names.last().is_some_and(|name| name == "mod") || path == "lib" || path == "main" {
        names.pop();
    }
    names
}

fn parent(module: &Module) -> Option<Module> {
    let (_, above) = module.split_last()?;
    Some(above.to_vec())
}

/// Groups of nodes that reach each other: what every node reaches, forwards and backwards. A crate has at most a few hundred files.
fn circles(uses: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let reached: Vec<BTreeSet<usize>> = (0..uses.len()).map(|from| reach(uses, from)).collect();
    let mut taken = vec![false; uses.len()];
    let mut found = Vec::new();
    for from in 0..uses.len() {
        if taken[from] {
            continue;
        }
        let circle: Vec<usize> = (0..uses.len())
            .filter(|to| {
                *to == from || (reached[from].contains(to) && reached[*to].contains(&from))
            })
            .collect();
        for member in &circle {
            taken[*member] = true;
        }
        found.push(circle);
    }
    found
}

fn reach(uses: &[Vec<usize>], from: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut waiting = vec![from];
    while let Some(at) = waiting.pop() {
        for &next in &uses[at] {
            if reached.insert(next) {
                waiting.push(next);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn largest(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<(String, &str)> = files
            .iter()
            .map(|(path, text)| (format!("crates/x/src/{path}"), *text))
            .collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(p, t)| (p.as_str(), *t)).collect();
        let tree = Tree::of(&files);
        let workspace = Workspace::of(&[("nilometer-x", &[])]);
        let files = Files::read(&tree, &workspace.crates[0]).unwrap();
        let circle = files.largest_circle();
        circle
            .iter()
            .map(|path| path.trim_start_matches("crates/x/src/").to_owned())
            .collect()
    }

    #[test]
    fn files_that_import_each_other_are_a_circle() {
        let found = largest(&[
            ("lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\n"),
            ("a.rs", "use crate::b::B;\n"),
            ("b.rs", "fn f() { crate::c::go(); }\n"),
            ("c.rs", "use super::{a::A, d};\n"),
            ("d.rs", "fn f() {}\n"),
        ]);
        assert_eq!(found, ["a.rs", "b.rs", "c.rs"]);
    }

    #[test]
    fn a_re_export_leads_to_the_file_that_defines_the_name() {
        // By way of lib.rs each of them would import all others.
        let found = largest(&[
            ("lib.rs", "mod a;\nmod b;\npub use a::A;\npub use b::B;\n"),
            ("a.rs", "use crate::B;\n"),
            ("b.rs", "pub struct B;\n"),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
        let found = largest(&[
            (
                "lib.rs",
                "mod a;\nmod b;\npub use a::A;\npub use b::inner::B;\n",
            ),
            ("a.rs", "use crate::B;\n"),
            ("b.rs", "pub(crate) mod inner;\n"),
            ("b/inner.rs", "use crate::A;\n"),
        ]);
        assert_eq!(found, ["a.rs", "b/inner.rs"]);
    }

    #[test]
    fn a_parent_that_uses_its_part_and_is_used_by_it_is_a_circle() {
        let found = largest(&[
            ("lib.rs", "mod a;\n"),
            ("a.rs", "mod part;\npub struct A;\nfn f() { part::go(); }\n"),
            ("a/part.rs", "use super::A;\n"),
        ]);
        assert_eq!(found, ["a.rs", "a/part.rs"]);
    }

    #[test]
    fn tests_and_comments_do_not_count() {
        let found = largest(&[
            ("lib.rs", "mod a;\nmod b;\n"),
            (
                "a.rs",
                "// crate::b::B\nfn f() {}\n#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}\n",
            ),
            ("b.rs", "use crate::a::A;\n"),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn a_large_circle_is_a_finding() {
        let names = ["a", "b", "c", "d", "e", "f"];
        let files: Vec<(String, String)> = (0..names.len())
            .map(|at| {
                let next = names[(at + 1) % names.len()];
                let path = format!("crates/x/src/{}.rs", names[at]);
                (path, format!("use crate::{next}::T;\n"))
            })
            .collect();
        let mut files: Vec<(&str, &str)> = files.iter().map(|(p, t)| (&**p, &**t)).collect();
        files.push(("crates/x/src/lib.rs", "mod a;\n"));
        let workspace = Workspace::of(&[("nilometer-x", &[])]);
        let found = check(&Tree::of(&files), &workspace);
        assert!(
            found[0].message.starts_with("6 files of `nilometer-x`"),
            "{found:?}"
        );
    }
}
