//! The three pipes of a program: what it is fed, and what it prints, within limits.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tollgate_types::Progress;

/// Room for one read.
const READ_BYTES: usize = 64 * 1024;

/// Why reading and writing stopped before the program had finished with its pipes.
pub(crate) enum PumpError {
    /// Standard output went over its limit.
    StdoutTooLarge,
    /// The system refused.
    Io(io::Error),
}

impl From<io::Error> for PumpError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Our ends of the pipes, and what came through them so far.
pub(crate) struct Pipes {
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    input: Vec<u8>,
    input_written: usize,
    output: Vec<u8>,
    output_bytes_max: usize,
    errors: Vec<u8>,
    errors_bytes_max: usize,
    progress: Progress,
}

impl Pipes {
    pub(crate) fn new(
        stdin: Option<ChildStdin>,
        stdout: Option<ChildStdout>,
        stderr: Option<ChildStderr>,
        input: Vec<u8>,
        output_bytes_max: usize,
        errors_bytes_max: usize,
        progress: Progress,
    ) -> Self {
        let (input_written, output, errors) = (0, Vec::new(), Vec::new());
        Self {
            stdin,
            stdout,
            stderr,
            input,
            input_written,
            output,
            output_bytes_max,
            errors,
            errors_bytes_max,
            progress,
        }
    }

    /// Feeds and reads side by side, so that neither a program that prints first nor one that reads last can block us;
    /// ends when both outputs are closed and the input is through. Dropping it loses nothing: it can be called again.
    pub(crate) async fn pump(&mut self) -> Result<(), PumpError> {
        while self.stdin.is_some() || self.stdout.is_some() || self.stderr.is_some() {
            tokio::select! {
                fed = feed(self.stdin.as_mut(), self.input.get(self.input_written..).unwrap_or_default()), if self.stdin.is_some() => {
                    match fed {
                        Some(bytes) => self.input_written += bytes,
                        None => self.stdin = None,
                    }
                }
                read = read(self.stdout.as_mut(), &mut self.output), if self.stdout.is_some() => {
                    match read? {
                        0 => self.stdout = None,
                        _ => self.progress.alive(),
                    }
                    if self.output.len() > self.output_bytes_max {
                        return Err(PumpError::StdoutTooLarge);
                    }
                }
                read = read(self.stderr.as_mut(), &mut self.errors), if self.stderr.is_some() => {
                    match read? {
                        0 => self.stderr = None,
                        _ => self.progress.alive(),
                    }
                    // Cut rarely and in bulk: each cut moves what is kept.
                    if self.errors.len() > self.errors_bytes_max.saturating_add(READ_BYTES) {
                        self.cut_errors();
                    }
                }
            }
        }
        Ok(())
    }

    /// Closes the program's input: whoever still holds it reads its end.
    pub(crate) fn close_input(&mut self) {
        self.stdin = None;
    }

    /// What was printed so far: standard output, and the end of standard error.
    pub(crate) fn into_outputs(mut self) -> (Vec<u8>, String) {
        self.cut_errors();
        (self.output, String::from_utf8_lossy(&self.errors).into_owned())
    }

    fn cut_errors(&mut self) {
        let surplus = self.errors.len().saturating_sub(self.errors_bytes_max);
        if surplus > 0 {
            let within_char = self.errors.iter().skip(surplus).take_while(|byte| **byte & 0xC0 == 0x80).take(3).count();
            self.errors.drain(..surplus + within_char);
        }
    }
}

/// Writes some of `input`; `None` when there is nothing left to write or nobody left to read it.
async fn feed(stdin: Option<&mut ChildStdin>, input: &[u8]) -> Option<usize> {
    match stdin {
        // A program may stop reading when it knows enough: a broken pipe is not an error.
        Some(stdin) if !input.is_empty() => stdin.write(input).await.ok().filter(|bytes| *bytes > 0),
        _ => None,
    }
}

/// Reads what is there to the end of `buffer`; zero bytes mean the end.
async fn read(pipe: Option<&mut (impl AsyncRead + Unpin)>, buffer: &mut Vec<u8>) -> io::Result<usize> {
    match pipe {
        Some(pipe) => {
            buffer.reserve(READ_BYTES);
            pipe.read_buf(buffer).await
        }
        None => Ok(0),
    }
}
