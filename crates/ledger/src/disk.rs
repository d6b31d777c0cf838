//! A disk of our own: a file with a file system, mounted, whose power can be cut.
//!
//! Does: make, mount, cut, mount again, and take everything away at the end; say in a sentence why it cannot be done here.
//! Does not: touch any device or mount that it did not make.
//!
//! The cut is ext4's shutdown without flushing its log, as the kernel's own tests use it: from that moment on nothing
//! reaches the image, and what was not synced is gone at the next mount.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// `FS_IOC_GOINGDOWN` with the flag for not flushing the log. There is no safe call of it in Rust and nothing in this
/// workspace is unsafe, so the interpreter that every Debian has makes it.
///
/// It says when it is ready and waits for a line, so that the moment of the cut is known.
const CUT: &str = "open(my $d, '<', $ARGV[0]) or exit 1; my $f = pack('L', 2); $| = 1; \
                   print \"ready\\n\"; <STDIN>; ioctl($d, 0x8004587d, $f) or exit 2;";

/// An image with a file system. Dropping it unmounts it.
#[derive(Debug)]
pub struct Disk {
    image: PathBuf,
    point: PathBuf,
    is_mounted: bool,
}

impl Disk {
    /// Makes a file system of so many MiB in a folder and mounts it; the inner error says why that is not possible here.
    pub fn make(folder: &Path, mib: u64) -> Result<Result<Self, String>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Err("mounting a disk needs root".to_owned()));
        }
        let disk = Self {
            image: folder.join("disk.img"),
            point: folder.join("disk"),
            is_mounted: false,
        };
        fs::create_dir(&disk.point).with_context(|| disk.point.display().to_string())?;
        let image = fs::File::create(&disk.image)?;
        image.set_len(mib << 20)?;
        let made = run(Command::new("mkfs.ext4")
            .arg("-q")
            .arg("-F")
            .arg(&disk.image));
        if let Err(why) = made {
            return Ok(Err(format!("mkfs.ext4 does not work here: {why}")));
        }
        let mut disk = disk;
        if let Err(e) = disk.mount() {
            return Ok(Err(format!(
                "mounting a loop device does not work here: {e:#}"
            )));
        }
        Ok(Ok(disk))
    }

    /// The same, and proves that a cut takes what was not synced, and leaves what was.
    pub fn make_with_cuts(folder: &Path, mib: u64) -> Result<Result<Self, String>> {
        let mut disk = match Self::make(folder, mib)? {
            Ok(disk) => disk,
            Err(why) => return Ok(Err(why)),
        };
        let (synced, unsynced) = (disk.point.join("synced"), disk.point.join("unsynced"));
        let mut file = fs::File::create(&synced)?;
        file.write_all(b"synced")?;
        file.sync_all()?;
        fs::File::open(&disk.point)?.sync_all()?;
        fs::write(&unsynced, b"unsynced")?;
        drop(file);
        if let Err(e) = disk.cut(|| {}) {
            return Ok(Err(format!(
                "the file system cannot be shut down here: {e:#}"
            )));
        }
        disk.unmount()?;
        disk.mount()?;
        if fs::read(&synced).unwrap_or_default() != b"synced" || unsynced.exists() {
            return Ok(Err(
                "a cut does not take exactly what was not synced here".to_owned()
            ));
        }
        fs::remove_file(&synced)?;
        Ok(Ok(disk))
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.point
    }

    /// Cuts the power. `moment` is called just before: what comes later than that is not from a machine that has power.
    /// A sync that is under way at that moment may well succeed without anything having been written, as the kernel
    /// drops the changes that would have made the bytes part of the file.
    pub fn cut(&self, moment: impl FnOnce()) -> Result<()> {
        let mut child = Command::new("perl")
            .args(["-e", CUT])
            .arg(&self.point)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("perl")?;
        let mut ready = [0; 6];
        let mut said = child.stdout.take().context("its output was piped")?;
        let is_ready = said.read_exact(&mut ready).is_ok();
        if is_ready {
            moment();
        }
        if let Some(mut line) = child.stdin.take() {
            // A program that has ended does not listen; its status says why.
            let _ = line.write_all(b"\n");
        }
        let status = child.wait()?;
        if !is_ready || !status.success() {
            bail!("the shutdown of {}: {status}", self.point.display());
        }
        Ok(())
    }

    /// Mounts the image.
    pub fn mount(&mut self) -> Result<()> {
        let command = &mut Command::new("mount");
        run(command
            .args(["-o", "loop,noatime"])
            .arg(&self.image)
            .arg(&self.point))
        .map_err(anyhow::Error::msg)?;
        self.is_mounted = true;
        Ok(())
    }

    /// Unmounts it, and its loop device goes.
    pub fn unmount(&mut self) -> Result<()> {
        run(Command::new("umount").arg(&self.point)).map_err(anyhow::Error::msg)?;
        self.is_mounted = false;
        Ok(())
    }

    /// Bytes that a user may still write.
    pub fn free(&self) -> Result<u64> {
        let stat = rustix::fs::statvfs(&self.point)?;
        Ok(stat.f_bavail * stat.f_frsize)
    }

    /// Fills the disk until so many bytes are free, or to the last byte for 0, with a file of that name.
    pub fn fill(&self, name: &str, free: u64) -> Result<()> {
        let mut file = fs::File::create(self.point.join(name))?;
        let piece = vec![0x5a; 8 << 20];
        loop {
            // Never all of it at once, because the file system takes some for its own records of where things are.
            let room = self.free()?.saturating_sub(free);
            let room = if room > 128 << 10 { room / 2 } else { room };
            let now = usize::try_from(room).map_or(piece.len(), |room| piece.len().min(room));
            if now == 0 {
                break;
            }
            match file.write_all(piece.get(..now).unwrap_or_default()) {
                Ok(()) => {}
                Err(e) if e.kind() == std::io::ErrorKind::StorageFull => break,
                Err(e) => bail!("{name}: {e}"),
            }
            // Without it the room is promised and not yet taken.
            file.sync_data().or_else(|e| match e.kind() {
                std::io::ErrorKind::StorageFull => Ok(()),
                _ => Err(e),
            })?;
        }
        Ok(())
    }

    /// Removes a file made by [`Self::fill`].
    pub fn release(&self, name: &str) -> Result<()> {
        let path = self.point.join(name);
        fs::remove_file(&path).with_context(|| path.display().to_string())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.is_mounted {
            // A process that was killed a moment ago may still hold the mount; then it goes with the process.
            let is_gone = self.unmount().is_ok();
            if !is_gone {
                let _ = run(Command::new("umount").arg("-l").arg(&self.point));
            }
        }
    }
}

/// Runs a program; the error is what it said.
pub fn run(command: &mut Command) -> std::result::Result<(), String> {
    let output = command.stdin(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!(
            "{}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        )),
        Err(e) => Err(e.to_string()),
    }
}
