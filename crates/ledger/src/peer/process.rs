//! The processes of a peer: started with what they say in files, killed all at once, never left behind.
//!
//! Does: find every process that the started one has started, because a server may be made of several.
//! Does not: signal any process that is not a descendant of one that it started.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::{Peer, Site};

/// Longest wait for a server to take requests, or to end. Recovery of a few megabytes takes seconds at most.
const WAIT_MAX: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(5);

/// A server that may not be up yet. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    child: Child,
    site: Site,
    is_over: Option<ExitStatus>,
    /// Where it will listen.
    pub address: SocketAddr,
}

/// Starts a server without waiting for anything.
pub fn spawn(peer: &dyn Peer, site: &Site) -> Result<Process> {
    let address = free_address()?;
    let file = |name: &str| {
        let path = site.output.join(name);
        File::create(&path).with_context(|| path.display().to_string())
    };
    let child = peer
        .command(site, address)
        .stdin(Stdio::null())
        .stdout(file("stdout")?)
        .stderr(file("stderr")?)
        .spawn()
        .with_context(|| format!("{} does not start", site.program.display()))?;
    Ok(Process {
        child,
        site: site.clone(),
        is_over: None,
        address,
    })
}

/// Starts a server and waits until it takes requests. The inner error says why it does not.
pub fn start(peer: &dyn Peer, site: &Site) -> Result<Result<Process, String>> {
    let mut process = spawn(peer, site)?;
    let deadline = Instant::now() + WAIT_MAX;
    while Instant::now() < deadline {
        if process.has_ended()? {
            return Ok(Err(format!("it ended: {}", process.last_words())));
        }
        if peer.is_ready(site, process.address) {
            return Ok(Ok(process));
        }
        thread::sleep(POLL);
    }
    Ok(Err(format!(
        "it took no requests within {WAIT_MAX:?}: {}",
        process.last_words()
    )))
}

/// An address that nobody listens on. Somebody else may take it before the server does, which then ends and says so.
fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?)
}

impl Process {
    /// Whether it has ended.
    pub fn has_ended(&mut self) -> Result<bool> {
        if self.is_over.is_none() {
            self.is_over = self.child.try_wait()?;
        }
        Ok(self.is_over.is_some())
    }

    /// The end of what it said.
    pub fn last_words(&self) -> String {
        let said = ["stderr", "stdout"].map(|name| {
            let bytes = fs::read(self.site.output.join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        });
        let said = said.concat();
        let skipped = said.chars().count().saturating_sub(1500);
        said.chars().skip(skipped).collect()
    }

    /// Kills it and everything that it has started, as one: nothing of it runs on.
    pub fn kill(mut self) -> Result<()> {
        self.strike()
    }

    /// The same without giving it up.
    pub fn strike(&mut self) -> Result<()> {
        let mut all = Vec::new();
        if !self.has_ended()? {
            let root = Pid::from_child(&self.child);
            // Stopped, it starts nothing more while its descendants are looked for.
            signal(root, Signal::STOP)?;
            all = descendants(root.as_raw_nonzero().get());
            signal(root, Signal::KILL)?;
        }
        for pid in &all {
            if let Some(pid) = Pid::from_raw(*pid) {
                signal(pid, Signal::KILL)?;
            }
        }
        self.wait()?;
        let deadline = Instant::now() + WAIT_MAX;
        while all.iter().any(|pid| is_running(*pid)) {
            if Instant::now() > deadline {
                bail!("killed processes do not end within {WAIT_MAX:?}");
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Asks it to stop, and waits until it has.
    pub fn stop(mut self, peer: &dyn Peer) -> Result<()> {
        if !self.has_ended()? {
            signal(Pid::from_child(&self.child), peer.stop_signal())?;
        }
        self.wait()
    }

    fn wait(&mut self) -> Result<()> {
        let deadline = Instant::now() + WAIT_MAX;
        while !self.has_ended()? {
            if Instant::now() > deadline {
                bail!("the server did not end within {WAIT_MAX:?}");
            }
            thread::sleep(POLL);
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nothing can be done about a failure here, and a server that has ended is fine.
        let _ = self.strike();
    }
}

fn signal(pid: Pid, signal: Signal) -> Result<()> {
    match kill_process(pid, signal) {
        Err(e) if e != rustix::io::Errno::SRCH => Err(e).context("a signal"),
        _ => Ok(()),
    }
}

/// All processes that a process has started, and those that they have started.
fn descendants(root: i32) -> Vec<i32> {
    let mut parents = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<i32>().ok());
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        if let (Some(pid), Some((_, parent))) = (pid, state_and_parent(&stat)) {
            parents.insert(pid, parent);
        }
    }
    let mut found = vec![root];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        found.extend(
            parents
                .iter()
                .filter(|(_, of)| **of == parent)
                .map(|(pid, _)| *pid),
        );
        at += 1;
    }
    found.split_off(1)
}

fn is_running(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // A zombie has nothing open any more; its new parent may take its time.
    matches!(state_and_parent(&stat), Some((state, _)) if state != 'Z' && state != 'X')
}

/// Two fields of `/proc/PID/stat`, behind a name in brackets that may itself have brackets and spaces.
fn state_and_parent(stat: &str) -> Option<(char, i32)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut words = rest.split_whitespace();
    let state = words.next()?.chars().next()?;
    Some((state, words.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn state_and_parent_are_read_whatever_the_name_is() {
        assert_eq!(
            state_and_parent("17 (a) b (c)) S 4 17 17 0"),
            Some(('S', 4))
        );
        assert_eq!(state_and_parent("17 (a"), None);
        assert_eq!(state_and_parent(""), None);
    }

    #[test]
    fn a_process_of_a_process_is_a_descendant_and_is_killed_with_it() {
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 600 & sleep 600 & wait"])
            .spawn()
            .unwrap();
        let root = Pid::from_child(&shell).as_raw_nonzero().get();
        let deadline = Instant::now() + WAIT_MAX;
        while descendants(root).len() < 2 && Instant::now() < deadline {
            thread::yield_now();
        }
        let sleepers = descendants(root);
        assert_eq!(sleepers.len(), 2);
        let site = Site {
            program: "sh".into(),
            data: "data".into(),
            output: "output".into(),
            flags: Vec::new(),
        };
        let has_ended = shell.try_wait().unwrap();
        assert_eq!(has_ended, None);
        let process = Process {
            child: shell,
            site,
            is_over: None,
            address: free_address().unwrap(),
        };
        process.kill().unwrap();
        assert!(!sleepers.iter().any(|pid| is_running(*pid)));
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_reader_of_stat_panic(text: String) {
            let _ = state_and_parent(&text);
        }
    }
}
