//! What only Linux can do, and the only unsafe code of the house.

use std::io;

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
use tokio::process::Command;

/// The program is killed when the thread that starts it ends, as it does with this process, also by `kill -9`.
///
/// INVARIANT: that thread lives as long as the process; see [`crate::parent`].
#[expect(unsafe_code, reason = "asking the kernel for this must happen in the new process, before it is the program")]
pub(crate) fn die_with_parent(command: &mut Command) {
    let parent = getpid();
    let ask = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the kernel was asked; then nobody would tell us any more.
        if getppid() == Some(parent) { Ok(()) } else { Err(io::Error::from(io::ErrorKind::NotConnected)) }
    };
    // SAFETY: between fork and exec only async-signal-safe calls are allowed. `ask` makes two plain system calls
    // (prctl, getppid), takes no lock, touches no memory but its own copied `parent`, and allocates nothing: an error
    // of the system and an error kind are both plain numbers.
    unsafe {
        command.pre_exec(ask);
    }
}
