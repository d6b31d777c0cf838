//! Ctrl-C during an import: batches in flight are finished, then the command to resume is printed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{SignalKind, signal};

/// Becomes true when the user or the system wants the program to end. A second time ends it at once, as without this.
pub(super) fn stop_on_signal() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    // Where there is no thread for it the program ends as programs do; the state is written as it goes.
    drop(std::thread::Builder::new().spawn(move || wait(&told)));
    stop
}

fn wait(stop: &AtomicBool) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build();
    let Ok(runtime) = runtime else { return };
    runtime.block_on(async {
        let signals = (
            signal(SignalKind::interrupt()),
            signal(SignalKind::terminate()),
        );
        let (Ok(mut interrupt), Ok(mut terminate)) = signals else {
            return;
        };
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if stop.swap(true, Ordering::Relaxed) {
                let this = rustix::process::getpid();
                // There is nobody left to tell if it fails.
                let _ = rustix::process::kill_process(this, rustix::process::Signal::KILL);
            }
        }
    });
}
