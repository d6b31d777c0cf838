//! A body is cut into the right lines, and each has the number an editor shows for it.

use nilometer_lineproto::{Lines, Precision, Reader};

/// What a reader finds: the number of each line, its text, and whether it is good.
fn read(input: &str) -> Vec<(usize, String, bool)> {
    let mut found = Vec::new();
    let mut reader = Reader::new(input.as_bytes(), Precision::Nanosecond);
    while let Some(result) = reader.next() {
        let (line_number, line, good) = match &result {
            Ok(point) => (point.line_number, point.line, true),
            Err(error) => (error.line_number, error.line, false),
        };
        found.push((
            line_number,
            String::from_utf8_lossy(line).into_owned(),
            good,
        ));
    }
    let lines: Vec<(usize, String)> = Lines::new(input.as_bytes())
        .map(|(number, line)| (number, String::from_utf8_lossy(line).into_owned()))
        .collect();
    assert_eq!(
        lines,
        found
            .iter()
            .map(|(number, line, _)| (*number, line.clone()))
            .collect::<Vec<_>>()
    );
    found
}

fn check(input: &str, expected: &[(usize, &str, bool)]) {
    let expected: Vec<_> = expected
        .iter()
        .map(|&(number, line, good)| (number, line.to_owned(), good))
        .collect();
    assert_eq!(read(input), expected, "{input:?}");
}

#[test]
fn blank_lines_and_comments_count() {
    check(
        "# head\n\n  \t# indented\na v=1\n\r\n \nb v=2 3\n#\nc v=3",
        &[(4, "a v=1", true), (7, "b v=2 3", true), (9, "c v=3", true)],
    );
}

#[test]
fn line_feeds_in_strings_count_and_do_not_end_the_line() {
    check(
        "a v=\"x\ny\n\nz\",w=1 5\nb v=1\nc v=\"\n\"\nd v=2",
        &[
            (1, "a v=\"x\ny\n\nz\",w=1 5", true),
            (5, "b v=1", true),
            (6, "c v=\"\n\"", true),
            (8, "d v=2", true),
        ],
    );
    check(
        "a s=\"\\\"\n\\\\\"\nb v=1",
        &[(1, "a s=\"\\\"\n\\\\\"", true), (3, "b v=1", true)],
    );
}

#[test]
fn reading_goes_on_after_a_bad_line() {
    check(
        "a v=bad\nb v=1\nc\nd v=1 x\n,e=1 v=1\nf v=1",
        &[
            (1, "a v=bad", false),
            (2, "b v=1", true),
            (3, "c", false),
            (4, "d v=1 x", false),
            (5, ",e=1 v=1", true),
            (6, "f v=1", true),
        ],
    );
}

#[test]
fn a_bad_value_before_a_string_with_line_feeds_takes_the_whole_line() {
    check(
        "a u=bad,v=\"x\ny\" 5\nb v=1",
        &[(1, "a u=bad,v=\"x\ny\" 5", false), (3, "b v=1", true)],
    );
    check(
        "a v=\"x\ny\" 5x\nb v=1",
        &[(1, "a v=\"x\ny\" 5x", false), (3, "b v=1", true)],
    );
}

#[test]
fn a_string_that_never_ends_takes_the_rest_of_the_body() {
    check(
        "a v=1\nb v=\"x\nc v=1\n",
        &[(1, "a v=1", true), (2, "b v=\"x\nc v=1", false)],
    );
}

#[test]
fn quotes_that_open_no_string_do_not_join_lines() {
    check(
        "a,t=\"x v=1 1\na,t=y v=1 2\n# q=\"\nb \"k=1\nc v=1\"\nd v=1\n",
        &[
            (1, "a,t=\"x v=1 1", true),
            (2, "a,t=y v=1 2", true),
            (4, "b \"k=1", true),
            (5, "c v=1\"", false),
            (6, "d v=1", true),
        ],
    );
    check(
        "t,l=hey\\ \"ya a=1i,v=0i\nt,l=another a=2i 1",
        &[
            (1, "t,l=hey\\ \"ya a=1i,v=0i", true),
            (2, "t,l=another a=2i 1", true),
        ],
    );
    check(
        "a k\\=\"=1\nb v=1",
        &[(1, "a k\\=\"=1", true), (2, "b v=1", true)],
    );
}

#[test]
fn a_backslash_does_not_hide_the_end_of_the_line() {
    check(
        "a v=1 0\\\nb v=1\na,t=x\\\nb v=1\n#\\\nc v=1",
        &[
            (1, "a v=1 0\\", false),
            (2, "b v=1", true),
            (3, "a,t=x\\", false),
            (4, "b v=1", true),
            (6, "c v=1", true),
        ],
    );
}

#[test]
fn carriage_returns_belong_to_the_line_ending() {
    check(
        "a v=1\r\nb v=\"x\r\ny\" 7\r\nc v=t\r\r\nd v=\"q\"\r\ne v=bad\r\n",
        &[
            (1, "a v=1", true),
            (2, "b v=\"x\r\ny\" 7", true),
            (4, "c v=t", true),
            (5, "d v=\"q\"", true),
            (6, "e v=bad", false),
        ],
    );
}

#[test]
fn a_body_of_zero_bytes_and_one_line_is_one_point() {
    let mut input = "\0".repeat(350_000);
    input.push_str("cpu,host=A value=0.5 1\n");
    check(&input, &[(1, "cpu,host=A value=0.5 1", true)]);
}
