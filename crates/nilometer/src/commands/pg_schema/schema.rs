//! Schema of a dump, in the order in which it can be made.
//!
//! Does: take keys, defaults and identities that `pg_dump` writes behind a table into its CREATE TABLE, make columns with sequences of
//! their own SERIAL, put tables behind those that they point to. Does not: change what a statement means; what a server has no use for
//! (owners, privileges, extensions, triggers, functions) is left out and named.

use std::collections::HashSet;
use std::fmt;

use anyhow::bail;

use super::text::{Statement, statements};

/// What `pg_dump` says of its own session.
const OF_THE_SESSION: [&str; 2] = ["set", "select pg_catalog . set_config"];

/// What is made anew as it is written: before tables, and behind them.
const BEFORE: [&str; 2] = ["create type", "create schema"];
const BEHIND: [&str; 5] = [
    "create view",
    "create index",
    "create unique index",
    "comment on table",
    "comment on column",
];

#[derive(Debug)]
struct Table<'a> {
    name: &'a str,
    /// Columns and constraints as they are written.
    elements: Vec<String>,
    /// Tables that its foreign keys point to.
    points_to: HashSet<&'a str>,
}

#[derive(Debug, Clone, Copy)]
struct Sequence<'a> {
    name: &'a str,
    /// As it is written.
    options: &'a str,
    text: &'a str,
    /// The table and the column that it is of.
    of: Option<(&'a str, &'a str)>,
    /// Its column makes it.
    is_made: bool,
}

/// A schema in the order in which it can be made.
#[derive(Debug, Default)]
pub(super) struct Schema<'a> {
    before: Vec<&'a str>,
    sequences: Vec<Sequence<'a>>,
    tables: Vec<Table<'a>>,
    behind: Vec<&'a str>,
    left_out: Vec<String>,
}

/// The name of a table or sequence without its schema.
fn last(name: &str) -> &str {
    let end = name.strip_suffix('"');
    let from = match end {
        Some(inner) => inner.rfind('"'),
        None => name.rfind('.').map(|at| at + 1),
    };
    name.get(from.unwrap_or(0)..).unwrap_or(name)
}

/// A name without quotes.
fn bare(name: &str) -> String {
    name.trim_matches('"').replace("\"\"", "\"")
}

impl<'a> Schema<'a> {
    /// Reads a dump.
    pub(super) fn of_dump(dump: &'a str) -> anyhow::Result<Self> {
        let mut schema = Self::default();
        let (mut serial, mut changes) = (Vec::new(), Vec::new());
        for mut statement in statements(dump)? {
            let is = |words: &&str| statement.clone().words(words);
            let is_of_owner = is(&"alter") && statement.text().contains(" OWNER TO ");
            if is_of_owner || OF_THE_SESSION.iter().any(is) {
                continue;
            }
            if BEFORE.iter().any(is) {
                schema.before.push(statement.text());
            } else if BEHIND.iter().any(is) {
                schema.behind.push(statement.text());
            } else if statement.words("create table") {
                schema.table(statement);
            } else if statement.words("create sequence") {
                schema.sequence(statement);
            } else if statement.words("alter sequence") {
                serial.push(statement);
            } else if statement.words("alter table only") || statement.words("alter table") {
                changes.push(statement);
            } else if statement.words("copy") {
                bail!(
                    "the dump has rows: write the schema with pg_dump --schema-only, and the rows with pg_dump --data-only for psql"
                );
            } else {
                schema.left_out.push(statement.shown());
            }
        }
        for statement in serial {
            schema.owner(statement);
        }
        for statement in changes {
            schema.change(statement);
        }
        schema.order();
        Ok(schema)
    }

    /// What is left out, by its first words.
    pub(super) fn left_out(&self) -> &[String] {
        &self.left_out
    }

    fn table(&mut self, mut statement: Statement<'a>) {
        let (name, elements) = (statement.name(), statement.elements());
        match (name, elements, statement.rest()) {
            (Some(name), Some(elements), rest) if rest.is_empty() || starts(rest, "with") => {
                self.tables.push(Table {
                    name,
                    elements,
                    points_to: HashSet::new(),
                });
            }
            // Partitions and children of other tables.
            _ => self.left_out.push(statement.shown()),
        }
    }

    fn sequence(&mut self, mut statement: Statement<'a>) {
        let text = statement.text();
        if let Some(name) = statement.name() {
            self.sequences.push(Sequence {
                name,
                options: statement.rest(),
                text,
                of: None,
                is_made: false,
            });
        }
    }

    /// `ALTER SEQUENCE s OWNED BY t.c`.
    fn owner(&mut self, mut statement: Statement<'a>) {
        let name = statement.name();
        let owned = statement.words("owned by");
        let (of, column) = (statement.rest(), last(statement.rest()));
        let table = of.strip_suffix(column).and_then(|it| it.strip_suffix('.'));
        let mut sequences = self.sequences.iter_mut();
        match (sequences.find(|it| Some(it.name) == name), table) {
            (Some(sequence), Some(table)) if owned => sequence.of = Some((table, column)),
            _ => self.left_out.push(statement.shown()),
        }
    }

    /// `ALTER TABLE ...`: a constraint, a default or an identity.
    fn change(&mut self, mut statement: Statement<'a>) {
        let shown = statement.shown();
        let name = statement.name().unwrap_or_default();
        let Some(place) = self.tables.iter().position(|it| it.name == name) else {
            self.left_out.push(shown);
            return;
        };
        let is_done = if statement.words("add constraint") {
            self.constraint(place, statement)
        } else if statement.words("alter column") {
            self.column(place, statement)
        } else {
            None
        };
        if is_done.is_none() {
            self.left_out.push(shown);
        }
    }

    fn constraint(&mut self, place: usize, mut statement: Statement<'a>) -> Option<()> {
        let written = statement.rest();
        statement.name()?;
        let table = self.tables.get_mut(place)?;
        if statement.words("foreign key") {
            statement.elements()?;
            if !statement.words("references") {
                return None;
            }
            table.points_to.insert(statement.name()?);
        } else if !statement.words("primary key") && !statement.words("unique") {
            let is_check = statement.words("check");
            if !is_check || statement.rest().contains("NOT VALID") {
                return None;
            }
        }
        table.elements.push(format!("CONSTRAINT {written}"));
        Some(())
    }

    fn column(&mut self, place: usize, mut statement: Statement<'a>) -> Option<()> {
        let column = statement.name()?;
        let table = self.tables.get_mut(place)?;
        let starts = |element: &&mut String| {
            let rest = element.strip_prefix(column);
            rest.is_some_and(|rest| rest.starts_with(' '))
        };
        let element = table.elements.iter_mut().find(starts)?;
        if statement.words("add generated") {
            let how = if statement.words("always as identity") {
                "ALWAYS"
            } else if statement.words("by default as identity") {
                "BY DEFAULT"
            } else {
                return None;
            };
            let options = statement.elements()?.concat();
            let start = value_of(&options, "START WITH").unwrap_or("1");
            let identity = [" GENERATED ", how, " AS IDENTITY (START WITH ", start, ")"];
            element.push_str(&identity.concat());
            return Some(());
        }
        if !statement.words("set default") {
            return None;
        }
        let default = statement.rest();
        let numbered = default
            .strip_prefix("nextval('")
            .and_then(|it| it.strip_suffix("'::regclass)"));
        let sequence = numbered.and_then(|name| {
            let name = name.replace("''", "'");
            let mut sequences = self.sequences.iter_mut();
            // A name without its schema is in that of `search_path`, which the dump says.
            let is_bare = last(&name) == name;
            sequences.find(|it| it.name == name || (is_bare && last(it.name) == name))
        });
        let Some(sequence) = sequence else {
            element.push_str(&[" DEFAULT ", default].concat());
            return Some(());
        };
        let usual = format!("{}_{}_seq", bare(last(table.name)), bare(column));
        let is_own =
            sequence.of == Some((table.name, column)) && bare(last(sequence.name)) == usual;
        let (_, rest) = element.split_once(' ')?;
        let serial = match rest.split(' ').next()? {
            "smallint" => "smallserial",
            "integer" => "serial",
            "bigint" => "bigserial",
            _ => "",
        };
        if is_own && !serial.is_empty() {
            let rest = rest.split_once(' ').map_or("", |(_, rest)| rest);
            let whole = [column, " ", serial, " ", rest].concat();
            whole.trim_end().clone_into(element);
            sequence.is_made = true;
        } else {
            let name = last(sequence.name).replace('\'', "''");
            element.push_str(&[" DEFAULT nextval('", &name, "'::regclass)"].concat());
        }
        Some(())
    }

    /// Puts tables behind those that they point to.
    fn order(&mut self) {
        let mut made: HashSet<&str> = HashSet::new();
        let mut ordered = Vec::new();
        let mut waiting = std::mem::take(&mut self.tables);
        while !waiting.is_empty() {
            let known: HashSet<&str> = waiting.iter().map(|it| it.name).collect();
            let can_be = |table: &Table<'_>| {
                let mut to = table.points_to.iter();
                to.all(|it| *it == table.name || made.contains(it) || !known.contains(it))
            };
            let (now, later): (Vec<_>, Vec<_>) = waiting.into_iter().partition(can_be);
            waiting = later;
            if now.is_empty() {
                for table in &mut waiting {
                    // They point to each other, and no table can be pointed to before it is there.
                    let name = table.name;
                    let is_foreign = |element: &mut String| element.contains(" FOREIGN KEY ");
                    let keys = table.elements.extract_if(.., is_foreign);
                    let keys = keys.map(|key| format!("of {name}: {key}"));
                    self.left_out.extend(keys);
                    table.points_to.clear();
                }
            }
            made.extend(now.iter().map(|table| table.name));
            ordered.extend(now);
        }
        self.tables = ordered;
    }
}

fn starts(text: &str, word: &str) -> bool {
    let first = text.split_whitespace().next();
    first.is_some_and(|first| first.eq_ignore_ascii_case(word))
}

/// The word behind others.
fn value_of<'t>(options: &'t str, words: &str) -> Option<&'t str> {
    let at = options.find(words)? + words.len();
    options.get(at..)?.split_whitespace().next()
}

impl fmt::Display for Schema<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for text in &self.before {
            write!(f, "{text};\n\n")?;
        }
        for sequence in self.sequences.iter().filter(|it| !it.is_made) {
            write!(f, "{};\n\n", sequence.text)?;
        }
        for table in &self.tables {
            let elements = table.elements.join(",\n    ");
            write!(f, "CREATE TABLE {} (\n    {elements}\n);\n\n", table.name)?;
            let made = self.sequences.iter();
            let made = made.filter(|it| it.is_made && it.of.is_some_and(|of| of.0 == table.name));
            for sequence in made {
                let start = value_of(sequence.options, "START WITH").filter(|it| *it != "1");
                let step = value_of(sequence.options, "INCREMENT BY").filter(|it| *it != "1");
                let start = start.map(|it| format!(" START WITH {it} RESTART WITH {it}"));
                let step = step.map(|it| format!(" INCREMENT BY {it}"));
                if start.is_some() || step.is_some() {
                    let (step, start) = (step.unwrap_or_default(), start.unwrap_or_default());
                    write!(f, "ALTER SEQUENCE {}{step}{start};\n\n", sequence.name)?;
                }
            }
        }
        for text in &self.behind {
            write!(f, "{text};\n\n")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(dump: &str) -> (String, Vec<String>) {
        let schema = Schema::of_dump(dump).unwrap();
        let text = schema.to_string();
        let lines: Vec<&str> = text.split_whitespace().collect();
        (lines.join(" "), schema.left_out().to_vec())
    }

    /// What `pg_dump` 15.18 writes of tables with each kind of key, but for its comments. A table without time was refused here, because its
    /// key came behind it.
    #[test]
    fn what_stands_behind_a_table_goes_into_it() {
        let dump = "SET xmloption = content;\nSELECT pg_catalog.set_config('search_path', '', false);\n\
            CREATE TABLE public.ord (\n    id bigint NOT NULL,\n    cust_id bigint NOT NULL\n);\nALTER TABLE public.ord OWNER TO postgres;\n\
            ALTER TABLE public.ord ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (\n    SEQUENCE NAME public.ord_id_seq\n    START WITH 20\n    INCREMENT BY 1\n    NO MINVALUE\n    NO MAXVALUE\n    CACHE 1\n);\n\
            CREATE TABLE public.\"Cust\" (\n    id integer NOT NULL,\n    v text DEFAULT 'a,b'::text,\n    CONSTRAINT c CHECK ((id > 0))\n);\n\
            CREATE SEQUENCE public.\"Cust_id_seq\"\n    AS integer\n    START WITH 5\n    INCREMENT BY 1\n    NO MINVALUE\n    NO MAXVALUE\n    CACHE 1;\n\
            ALTER SEQUENCE public.\"Cust_id_seq\" OWNED BY public.\"Cust\".id;\n\
            ALTER TABLE ONLY public.\"Cust\" ALTER COLUMN id SET DEFAULT nextval('public.\"Cust_id_seq\"'::regclass);\n\
            ALTER TABLE ONLY public.\"Cust\"\n    ADD CONSTRAINT \"Cust_pkey\" PRIMARY KEY (id);\n\
            ALTER TABLE ONLY public.ord\n    ADD CONSTRAINT ord_pkey PRIMARY KEY (id);\n\
            CREATE INDEX ord_c ON public.ord USING btree (cust_id);\n\
            ALTER TABLE ONLY public.ord\n    ADD CONSTRAINT ord_fkey FOREIGN KEY (cust_id) REFERENCES public.\"Cust\"(id) ON DELETE CASCADE;\n\
            CREATE FUNCTION public.f() RETURNS integer LANGUAGE sql AS $$ SELECT 1; $$;\n";
        let (text, left_out) = converted(dump);
        assert_eq!(
            text,
            "CREATE TABLE public.\"Cust\" ( id serial NOT NULL, v text DEFAULT 'a,b'::text, CONSTRAINT c CHECK ((id > 0)), CONSTRAINT \"Cust_pkey\" PRIMARY KEY (id) ); \
             ALTER SEQUENCE public.\"Cust_id_seq\" START WITH 5 RESTART WITH 5; \
             CREATE TABLE public.ord ( id bigint NOT NULL GENERATED BY DEFAULT AS IDENTITY (START WITH 20), cust_id bigint NOT NULL, CONSTRAINT ord_pkey PRIMARY KEY (id), \
             CONSTRAINT ord_fkey FOREIGN KEY (cust_id) REFERENCES public.\"Cust\"(id) ON DELETE CASCADE ); \
             CREATE INDEX ord_c ON public.ord USING btree (cust_id);"
        );
        assert_eq!(
            left_out,
            ["CREATE FUNCTION public.f() RETURNS integer LANGUAGE sql AS"]
        );
    }

    #[test]
    fn tables_that_point_to_each_other_lose_a_key_and_say_so() {
        let dump = "CREATE TABLE a (x int); CREATE TABLE b (x int); ALTER TABLE ONLY a ADD CONSTRAINT ab FOREIGN KEY (x) REFERENCES b(x);\
            ALTER TABLE ONLY b ADD CONSTRAINT ba FOREIGN KEY (x) REFERENCES a(x);";
        let (text, left_out) = converted(dump);
        assert_eq!(text, "CREATE TABLE a ( x int ); CREATE TABLE b ( x int );");
        assert_eq!(left_out.len(), 2, "{left_out:?}");
        Schema::of_dump("COPY t FROM stdin;\n").unwrap_err();
    }
}
