//! One store of a peer: what was sent to it, sending until a fault comes, reading everything back.
//!
//! Does: write from several threads, count an acknowledgement only if the machine had power when it came, send again
//! what was not answered.
//! Does not: decide when a fault comes; `trial/peers.rs` does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::account::{Account, Found};
use super::content::Content;
use super::process::Process;
use super::{Peer, Site, Writer};
use crate::journal::Name;
use crate::life::{Outcome, WRITERS};
use crate::tally::Tally;

/// Between two batches of a writer, so that a store stays small enough to be read back after every fault.
const PAUSE: Duration = Duration::from_millis(2);

/// What a trial counts beside the figures of every trial.
#[derive(Debug, Default)]
pub struct Count {
    /// Those figures.
    pub tally: Tally,
    /// Starts after a fault that did not come to a server that takes requests.
    pub unopened: u64,
    /// Batches without an answer that were there in part.
    pub in_part: u64,
    /// The longest time between an acknowledgement and the fault that undid it.
    pub oldest_lost: Duration,
}

/// One store and what was sent to it.
#[derive(Debug)]
pub struct Life {
    /// Its driver.
    pub peer: &'static dyn Peer,
    /// Where it is.
    pub site: Site,
    account: Mutex<Account>,
    is_powerless: AtomicBool,
    struck: Mutex<Instant>,
}

impl Life {
    /// A new life, with its journal beside what the server says.
    pub fn create(peer: &'static dyn Peer, site: Site, content: Content) -> Result<Self> {
        let account = Account::create(content, &site.output.join("journal"))?;
        peer.create(&site)
            .with_context(|| format!("{} makes its folder", peer.name()))?;
        Ok(Self {
            peer,
            site,
            account: Mutex::new(account),
            is_powerless: AtomicBool::new(false),
            struck: Mutex::new(Instant::now()),
        })
    }

    /// The account, also after a panic elsewhere: what it holds is still true.
    pub fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says whether the machine under the server has power.
    pub fn set_power(&self, is_on: bool) {
        self.is_powerless.store(!is_on, Ordering::SeqCst);
    }

    /// Makes the table, and writes one batch of each writer.
    pub fn prepare(&self, server: &Process) -> Result<()> {
        self.peer.prepare(&self.site, server.address)?;
        let mut client = self.peer.connect(&self.site, server.address)?;
        for writer in 0..WRITERS {
            let name = self.account().begin(writer)?;
            match self.send(client.as_mut(), name)? {
                Outcome::Done => {}
                other => bail!("the first batch: {other:?}"),
            }
        }
        Ok(())
    }

    /// Sends a batch that the account has noted, and notes what came of it.
    fn send(&self, client: &mut dyn Writer, name: Name) -> Result<Outcome> {
        let rows = self.account().content.batch(name);
        let outcome = client.write(&rows);
        let counts = !self.is_powerless.load(Ordering::SeqCst);
        match &outcome {
            Outcome::Done if counts => self.account().acknowledge(name)?,
            Outcome::Refused(_) if counts => self.account().refuse(name)?,
            _ => {}
        }
        Ok(outcome)
    }

    /// Sends again what was not answered, as a client must that cannot know; there are no keys.
    pub fn send_again(&self, server: &Process, tally: &mut Tally) -> Result<()> {
        let mut client = self.peer.connect(&self.site, server.address)?;
        let names = self.account().unanswered();
        for name in names {
            self.account().begin_again(name)?;
            let outcome = self.send(client.as_mut(), name)?;
            if let Some(story) = outcome.complaint("a batch that was sent again") {
                tally.broke(story);
                break;
            }
        }
        Ok(())
    }

    /// Writes from several threads for so long, strikes, and waits for the writers to notice. The strike calls what it
    /// is given just before it comes down.
    pub fn load(
        &self,
        server: &mut Process,
        time: Duration,
        strike: impl FnOnce(&mut Process, &dyn Fn()) -> Result<()>,
    ) -> Result<Tally> {
        let begun = Instant::now();
        let (is_struck, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
        let address = server.address;
        thread::scope(|scope| {
            let write = |writer| {
                let mut tally = Tally::default();
                let mut client = self.peer.connect(&self.site, address)?;
                while !is_over.load(Ordering::SeqCst) {
                    let name = self.account().begin(writer)?;
                    let outcome = self.send(client.as_mut(), name)?;
                    if let Some(story) = outcome.complaint("a batch") {
                        if !is_struck.load(Ordering::SeqCst) {
                            tally.broke(story);
                        }
                        break;
                    }
                    thread::sleep(PAUSE);
                }
                anyhow::Ok(tally)
            };
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| scope.spawn(move || write(writer)))
                .collect();
            while begun.elapsed() < time
                && !writers.iter().any(thread::ScopedJoinHandle::is_finished)
            {
                thread::sleep(Duration::from_micros(500));
            }
            let struck = strike(server, &|| {
                is_struck.store(true, Ordering::SeqCst);
                self.set_struck();
            });
            // A strike that failed is no reason to wait for its effect.
            is_struck.store(true, Ordering::SeqCst);
            is_over.store(true, Ordering::SeqCst);
            let mut tally = Tally {
                load: begun.elapsed(),
                ..Tally::default()
            };
            for writer in writers {
                tally.add(writer.join().expect("a writer does not panic")?);
            }
            struck?;
            Ok(tally)
        })
    }

    fn set_struck(&self) {
        *self.struck.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Reads everything back and compares.
    pub fn check(&self, server: &Process, count: &mut Count, label: &str) -> Result<()> {
        let rows = match self.peer.read(&self.site, server.address) {
            Ok(rows) => rows,
            Err(e) => {
                count.tally.broke(format!("{label}: reading back: {e:#}"));
                return Ok(());
            }
        };
        let struck = *self.struck.lock().unwrap_or_else(PoisonError::into_inner);
        let mut account = self.account();
        let found = Found::of(account.content, &rows);
        let opinion = account.compare(&found, struck);
        count.tally.take(opinion.verdict, label);
        count.in_part += opinion.in_part;
        count.oldest_lost = count.oldest_lost.max(opinion.oldest_lost);
        Ok(())
    }

    /// Adds up what was acknowledged, and compares the account with its journal.
    pub fn finish(&self, tally: &mut Tally) -> Result<()> {
        let account = self.account();
        tally.acked += account.acknowledged();
        if !account.agrees_with_journal()? {
            bail!("the account in memory and its journal do not say the same");
        }
        Ok(())
    }
}
