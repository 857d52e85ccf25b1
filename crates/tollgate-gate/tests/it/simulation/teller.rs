//! Tells a story: each step is done before the next one begins, and what is acknowledged on the way is kept for the laws.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tollgate_gate::Verdict;
use tollgate_store::Answer;
use tollgate_testkit::TestClock;
use tollgate_types::{End, Outcome};

use super::laws::{self, Told};
use super::process::{Process, World};
use super::story::{Step, Story};
use crate::world::records;

struct Teller<'a> {
    story: &'a Story,
    folder: tempfile::TempDir,
    time: Arc<TestClock>,
    world: Arc<World>,
    processes: [Option<Process>; 2],
    /// With what each is opened that dies soon.
    reads_left: [Option<u32>; 2],
    told: Told,
}

/// Memory, where there is a file system for it: nothing here asks how long a disk takes.
fn folder() -> tempfile::TempDir {
    let memory = std::path::Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}

/// A story as it was told.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tale {
    /// What is on record at the end, without what is different each time.
    pub(crate) lines: Vec<String>,
    /// Whether each telling of it is the same.
    pub(crate) is_exact: bool,
}

/// Tells a story; or says which law is broken.
pub(crate) fn tell(story: &Story) -> Result<Tale, String> {
    let (folder, time) = (folder(), Arc::default());
    let world = World::of(story);
    let (processes, reads_left, told) = ([None, None], [None, None], Told::default());
    let mut teller = Teller { story, folder, time, world, processes, reads_left, told };
    for (place, step) in story.steps.iter().enumerate() {
        // Ids are in the order of time.
        teller.time.advance(Duration::from_millis(1));
        teller.step(step);
        teller.bury();
        laws::always(&teller.world).map_err(|what| format!("after step {place}: {what}"))?;
    }
    teller.finish()
}

impl Teller<'_> {
    /// The process, opened where it does not run; none where it dies over that.
    fn process(&mut self, which: usize) -> Option<&mut Process> {
        let slot = &mut self.processes[which];
        if slot.is_none() {
            let dies = self.reads_left[which].take();
            *slot = Process::open(self.folder.path(), &self.time, &self.world, self.story.segment_bytes_max, dies);
        }
        slot.as_mut()
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Call { process, ref asked, hold, ending } => {
                let ended = self.process(process).and_then(|process| process.call(asked, hold, ending));
                self.hear(process, ended);
            }
            Step::Release { process, which } => {
                let ended = self.processes[process].as_mut().and_then(|process| process.release(which));
                self.hear(process, ended);
            }
            Step::Leave { process, which } => {
                self.processes[process].as_mut().and_then(|process| process.leave(which));
            }
            Step::Pass { ms } => {
                self.time.advance(Duration::from_millis(ms));
                for which in 0..2 {
                    let ended = self.processes[which].as_mut().map(|process| process.pass(ms)).unwrap_or_default();
                    self.hear(which, ended);
                }
            }
            Step::Answer { process, which, is_yes } => self.answer(process, which, is_yes),
            Step::Settle { process, which } => self.settle(process, which),
            Step::Stop { process } => {
                if let Some(stopped) = self.processes[process].take() {
                    let ended = stopped.stop();
                    self.told.outcomes.extend(ended);
                }
            }
            Step::Kill { process, torn_bytes } => {
                if let Some(dead) = self.processes[process].take() {
                    dead.kill();
                    self.tear(torn_bytes);
                }
            }
            Step::KillAfter { process, reads } => match &self.processes[process] {
                Some(process) => process.clock().kill_after(reads),
                None => self.reads_left[process] = Some(reads),
            },
        }
    }

    /// What a process that lives said is acknowledged.
    fn hear(&mut self, which: usize, ended: impl IntoIterator<Item = Outcome>) {
        if self.processes[which].as_ref().is_none_or(Process::is_dead) {
            return;
        }
        for outcome in ended {
            if let End::Waiting(waiting, _) = &outcome.end
                && !self.told.questions.contains(&waiting.id.to_string())
            {
                self.told.questions.push(waiting.id.to_string());
            }
            self.told.outcomes.push(outcome);
        }
    }

    fn answer(&mut self, process: usize, which: usize, is_yes: bool) {
        let Some(place) = which.checked_rem(self.told.questions.len()) else { return };
        let id = self.told.questions[place].clone();
        let Some(process) = self.process(process) else { return };
        let answer = Answer { approved: is_yes, by: "alice".into(), reason: None, typed: None };
        let answered = process.block_on(process.operator.answer(&id, answer));
        if let Some(Ok(_)) = answered {
            self.told.answers.push((id, is_yes));
        }
    }

    fn settle(&mut self, process: usize, which: usize) {
        let effects = self.world.effects.lock().unwrap().clone();
        let Some(process) = self.process(process) else { return };
        let Some(Ok(unsettled)) = process.block_on(process.operator.unsettled()) else { return };
        let Some(one) = which.checked_rem(unsettled.len()).map(|place| &unsettled[place]) else { return };
        let id = one.attempt.to_string();
        // The operator looks, and says the truth.
        let verdict = if effects.contains(&id) { Verdict::Done } else { Verdict::Failed };
        if let Some(Ok(_)) = process.block_on(process.operator.settle(&id, verdict, "looked".into())) {
            self.told.settled.push(id);
        }
    }

    /// Takes away whoever died over the step.
    fn bury(&mut self) {
        for slot in &mut self.processes {
            if let Some(dead) = slot.take_if(|process| process.is_dead()) {
                dead.kill();
            }
        }
    }

    /// What a write leaves that a death cut short: the beginning of a record that nobody was told of.
    fn tear(&self, bytes: usize) {
        let mut segments: Vec<_> =
            std::fs::read_dir(self.folder.path().join("audit")).unwrap().map(|file| file.unwrap().path()).collect();
        segments.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
        segments.sort();
        let Some(last) = segments.last() else { return };
        let text = std::fs::read(last).unwrap();
        let line = text.split_inclusive(|byte| *byte == b'\n').next_back().unwrap_or_default();
        let torn = &line[..bytes.min(line.len().saturating_sub(1))];
        let is_sealed = std::fs::metadata(last).unwrap().permissions().readonly();
        if !is_sealed && !torn.is_empty() {
            std::io::Write::write_all(&mut std::fs::OpenOptions::new().append(true).open(last).unwrap(), torn).unwrap();
        }
    }

    fn finish(mut self) -> Result<Tale, String> {
        for which in 0..2 {
            if let Some(process) = self.processes[which].take() {
                // Whoever still works at the end dies over it.
                if process.under_way() > 0 { process.kill() } else { drop(process.stop()) }
            }
        }
        self.reads_left = [None, None];
        let last = self.process(0).ok_or("the last process died")?;
        let unsettled =
            last.block_on(last.operator.unsettled()).ok_or("it died")?.map_err(|error| error.to_string())?;
        let unsettled: Vec<_> = unsettled.iter().map(|one| one.attempt.to_string()).collect();
        if let Some(last) = self.processes[0].take() {
            last.stop();
        }
        laws::always(&self.world)?;
        let records = laws::at_the_end(self.folder.path(), &self.world, &self.told, &unsettled).map_err(|what| {
            let lines: String = records(self.folder.path()).iter().map(|record| format!("  {record}\n")).collect();
            format!("{what}\n{lines}")
        })?;
        let mut lines: Vec<String> = records.iter().map(laws::line).collect();
        lines.push(format!("{} effects", self.world.effects.lock().unwrap().len()));
        let is_exact = !self.story.counts_both && !self.world.is_loose.load(Ordering::SeqCst);
        Ok(Tale { lines, is_exact })
    }
}
