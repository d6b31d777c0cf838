//! Sizes with units, wherever a flag takes bytes; and errors of the system, told once.

use tempfile::TempDir;

use crate::support::nilometer;

/// `--memory-bytes-max 4GB` was refused, in the file of settings too.
#[test]
fn flags_variables_and_the_file_take_sizes_with_units() {
    let dir = TempDir::new().expect("a scratch folder");
    let file = "memory-bytes-max = \"2GiB\"\nlog-bytes-max = 1000000\n";
    std::fs::write(dir.path().join("n.toml"), file).expect("a file");
    let arguments = [
        "config",
        "--config",
        "n.toml",
        "--format",
        "json",
        "--body-bytes-max",
        "10k",
        "--flush-bytes",
        "512MiB",
    ];
    let shown = nilometer(dir.path(), &arguments).succeeded();
    let shown: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
    for (setting, want) in [
        ("memory-bytes-max", 2_u64 << 30),
        ("log-bytes-max", 1_000_000),
        ("body-bytes-max", 10_000),
        ("flush-bytes", 512 << 20),
    ] {
        assert_eq!(shown[setting]["value"], want, "{setting}: {shown}");
    }
    let wrong = ["serve", "--memory-bytes-max", "4 apples"];
    let run = nilometer(dir.path(), &wrong);
    assert!(run.stderr.contains("512MiB"), "{}", run.stderr);
    std::fs::write(dir.path().join("n.toml"), "flush-rows = \"1k\"\n").expect("a file");
    let run = nilometer(dir.path(), &["config", "--config", "n.toml"]);
    assert!(run.stderr.contains("flush-rows takes"), "{}", run.stderr);
}

/// The reason of the system stood twice in a line.
#[test]
fn a_reason_of_the_system_is_told_once() {
    let dir = TempDir::new().expect("a scratch folder");
    std::fs::write(dir.path().join("file"), "").expect("a file");
    for arguments in [
        ["import", "--data", "file/data", "-d", "d", "-"].as_slice(),
        &["sql", "--data", "file/data", "-d", "d", "select 1"],
        &["import", "-d", "d", "nowhere.csv"],
    ] {
        let stderr = nilometer(dir.path(), arguments).failed();
        assert!(stderr.matches("(os error").count() <= 1, "{stderr}");
    }
}
