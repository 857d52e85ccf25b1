//! The loop: the model answers, its calls pass the door side by side, their results go back in call order, until it
//! answers with text or a limit is reached. Whatever happens, every call in the history has exactly one result.

mod calls;
mod event;
mod kept;
mod repetition;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::value::RawValue;
use tollgate_types::{Caller, CancellationToken, Door, ErrorObject, Risk, Said, Text, ToolDefinition, limits};
use tollgate_wire::{Finish, History, Lowered, Lowerings, Message, ModelCall, ToolChoice, Turn, Usage};

pub use event::{Answer, Difference, Event, OpenQuestion, RunError};
use repetition::Repetition;

use crate::hosted::Hosted;
use crate::model::{Model, ModelError, ModelRequest};
use crate::record::{Line, Recorder, ResultRecord};
use crate::session::Session;

/// How an agent works.
#[derive(Debug, Clone)]
pub struct Options {
    /// What the model is told to be.
    pub system: Option<String>,
    /// Rounds of one prompt.
    pub rounds_max: u32,
    /// Calls of one round that run at once.
    pub calls_at_once_max: usize,
    /// Whether the model may call. A forced choice holds for the first round, or it would never answer.
    pub tool_choice: ToolChoice,
    /// The tools to offer, of those that the caller may use; all of them if unset.
    pub tools: Option<Vec<String>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            system: None,
            rounds_max: limits::ROUNDS_MAX,
            calls_at_once_max: limits::CALLS_AT_ONCE_MAX,
            tool_choice: ToolChoice::Auto,
            tools: None,
        }
    }
}

/// A model, a door, and the conversation between them.
pub struct Agent {
    pub(crate) door: Arc<dyn Door>,
    pub(crate) caller: Caller,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) options: Options,
    lowerings: Lowerings,
    history: History,
    recorder: Option<Recorder>,
    session: Option<Session>,
    /// Whether what is here of the session may differ from what is stored.
    is_stale: bool,
    /// Whether tools answered in the session before this process took it up.
    is_resumed: bool,
}

/// What one prompt may use.
struct Offer {
    lowered: Lowered,
    names: Vec<String>,
    tools: HashMap<String, Arc<ToolDefinition>>,
    /// Tools that the provider of the model may run.
    hosted: Vec<Arc<ToolDefinition>>,
    hosted_wire: Vec<Box<RawValue>>,
    /// Tools of the door that the options leave out. A model may know their names; they must not run.
    withheld: HashSet<String>,
}

impl Offer {
    /// Whether the tool changes nothing, so that its calls may happen again.
    fn reads(&self, tool: &str) -> bool {
        self.tools.get(tool).is_some_and(|tool| tool.risk == Risk::Read)
    }
}

impl Agent {
    /// An agent with an empty conversation.
    pub fn new(door: Arc<dyn Door>, caller: Caller, model: Arc<dyn Model>, options: Options) -> Self {
        let history = conversation(&options, Vec::new());
        Self {
            door,
            caller,
            model,
            options,
            lowerings: Lowerings::default(),
            history,
            recorder: None,
            session: None,
            is_stale: false,
            is_resumed: false,
        }
    }

    /// The same agent with a recording of what it does.
    #[must_use]
    pub fn with_recorder(mut self, recorder: Recorder) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// Who asks.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The conversation so far.
    pub fn history(&self) -> &[Message] {
        self.history.messages()
    }

    /// Asks, and works until there is an answer. The conversation goes on from where it was.
    ///
    /// # Errors
    /// When the model does not answer, a limit is reached, the same calls bring the same results again and again, the
    /// recording or the session cannot be written, a call of a session waits for a human, or `cancellation` fires. The
    /// conversation is sound afterwards; a prompt to which nothing came back is taken out of it, but of a session only when
    /// the next one comes.
    pub async fn ask(
        &mut self,
        prompt: &str,
        cancellation: &CancellationToken,
        on_event: &mut (dyn FnMut(&Event) + Send),
    ) -> Result<Answer, RunError> {
        self.run(Some(prompt), cancellation, on_event).await
    }

    /// Goes on with a session where its answers were missing: asks the door for the calls that have no outcome, then the
    /// model. Where none is missing, the answer that is there is said again.
    ///
    /// # Errors
    /// Those of [`Agent::ask`], and when there is no session or nothing was said in it.
    pub async fn resume(
        &mut self,
        cancellation: &CancellationToken,
        on_event: &mut (dyn FnMut(&Event) + Send),
    ) -> Result<Answer, RunError> {
        self.run(None, cancellation, on_event).await
    }

    async fn run(
        &mut self,
        prompt: Option<&str>,
        cancellation: &CancellationToken,
        on_event: &mut (dyn FnMut(&Event) + Send),
    ) -> Result<Answer, RunError> {
        // A run whose future was dropped leaves calls without results, or a prompt without a reply.
        self.settle();
        let result = tokio::select! {
            biased;
            () = cancellation.cancelled() => Err(RunError::Cancelled),
            result = self.work(prompt, on_event) => result,
        };
        match &result {
            Ok(_) => self.is_stale = false,
            Err(error) => {
                self.settle();
                on_event(&match error {
                    RunError::Waiting { session, waiting } => {
                        Event::Paused { session: session.clone(), waiting: waiting.clone() }
                    }
                    _ => Event::Error { error: ErrorObject::from(error) },
                });
            }
        }
        result
    }

    /// What people wrote: the operator in the system's message, the user in the prompts. A reply of the model is
    /// neither.
    fn said(&self) -> Said {
        let mut said = Said { is_resumed: self.is_resumed, ..Said::default() };
        for message in self.history.messages() {
            match message {
                Message::System(text) => said.operator.push(text.clone()),
                Message::User(content) => said.user.push(content.text().into_owned()),
                Message::Assistant { .. } | Message::Tool { .. } => {}
            }
        }
        said
    }

    /// Makes the conversation sound, and takes a prompt to which nothing came back out of it. What a session holds is
    /// read again instead, before it goes on.
    fn settle(&mut self) {
        if self.session.is_some() {
            return;
        }
        self.history.repair();
        if let [before @ .., Message::User(_)] = self.history.messages() {
            let length = before.len();
            self.history.truncate(length);
        }
    }

    async fn work(
        &mut self,
        prompt: Option<&str>,
        on_event: &mut (dyn FnMut(&Event) + Send),
    ) -> Result<Answer, RunError> {
        self.refresh().await?;
        let offer = self.offer().await?;
        if prompt.is_none()
            && let Some(answer) = self.take_up(&offer, on_event)?
        {
            return Ok(answer);
        }
        self.complete(&offer, on_event).await?;
        if let Some(prompt) = prompt {
            self.begin(prompt, &offer, on_event).await?;
        }
        self.rounds(&offer, on_event).await
    }

    async fn rounds(&mut self, offer: &Offer, on_event: &mut (dyn FnMut(&Event) + Send)) -> Result<Answer, RunError> {
        let mut tool_choice = self.options.tool_choice.clone();
        if !matches!(self.history.messages().last(), Some(Message::User(_))) {
            tool_choice = unforced(tool_choice);
        }
        let mut repetition = Repetition::default();
        let mut usage = Usage::default();
        let mut differences = Vec::new();
        for round in 1..=self.options.rounds_max {
            let turn = self.turn(round, offer, &tool_choice, on_event).await?;
            let spent = turn.usage.unwrap_or_default();
            usage += spent;
            if turn.calls.is_empty() && turn.finish == Finish::Paused {
                continue;
            }
            if turn.calls.is_empty() {
                self.record(|| Line::Answer { text: turn.text.clone() })?;
                let answer = Answer { text: turn.text, rounds: round, finish: turn.finish, usage, differences };
                on_event(&answer.event());
                return Ok(answer);
            }
            let results = self.call_all(&turn.calls, offer, on_event).await?;
            let signatures = turn.calls.iter().zip(&results).map(|(call, result)| (call, result.text.as_str()));
            let stuck = repetition.take(signatures);
            self.compare(&turn, results, &mut differences, on_event);
            if let Some(tool) = stuck {
                return Err(RunError::NoProgress { tool });
            }
            tool_choice = unforced(tool_choice);
        }
        Err(RunError::BudgetExceeded { rounds: self.options.rounds_max })
    }

    /// Finds what may be offered.
    async fn offer(&self) -> Result<Offer, RunError> {
        let listed = self.door.list(&self.caller).await;
        let is_wanted =
            |tool: &Arc<ToolDefinition>| self.options.tools.as_ref().is_none_or(|names| names.contains(&tool.name));
        let (offered, withheld): (Vec<_>, Vec<_>) = listed.into_iter().partition(is_wanted);
        let named = match &self.options.tool_choice {
            ToolChoice::Named(name) => std::slice::from_ref(name),
            ToolChoice::Allowed { tools, .. } => tools.as_slice(),
            ToolChoice::Auto | ToolChoice::None | ToolChoice::Required => &[],
        };
        // A tool of the provider is not the door's to list.
        let wanted = self.options.tools.iter().flatten().filter(|name| !name.starts_with(Hosted::PREFIX)).chain(named);
        let missing: Vec<String> =
            wanted.filter(|name| !offered.iter().any(|tool| tool.name == **name)).cloned().collect();
        if !missing.is_empty() {
            return Err(RunError::UnknownTools { names: missing });
        }
        let hosted = self.permitted();
        let lowered = self
            .lowerings
            .lower(&offered, &self.model.target())
            .map_err(|e| ModelError::Config { reason: e.to_string() })?;
        Ok(Offer {
            lowered,
            hosted_wire: hosted.iter().map(|tool| tool.wire.clone()).collect(),
            hosted: hosted.into_iter().map(|tool| tool.definition).collect(),
            names: offered.iter().map(|tool| tool.name.clone()).collect(),
            tools: offered.into_iter().map(|tool| (tool.name.clone(), tool)).collect(),
            withheld: withheld.into_iter().map(|tool| tool.name.clone()).collect(),
        })
    }

    /// Takes a prompt into the conversation, and says that the run begins.
    async fn begin(
        &mut self,
        prompt: &str,
        offer: &Offer,
        on_event: &mut (dyn FnMut(&Event) + Send),
    ) -> Result<(), RunError> {
        let (prompt, model, tools) = (prompt.to_owned(), self.model.name().to_owned(), offer.names.clone());
        let line = Line::Run { prompt: prompt.clone(), model: model.clone(), tools: tools.clone() };
        self.keep_prompt(&line).await?;
        self.record(|| line)?;
        let session = self.session.as_ref().map(|session| session.meta().id.clone());
        on_event(&Event::RunStarted { prompt: prompt.clone(), model, tools, session });
        self.history.push(Message::user(prompt));
        Ok(())
    }

    /// Asks the model, and keeps what it said.
    async fn turn(
        &mut self,
        round: u32,
        offer: &Offer,
        tool_choice: &ToolChoice,
        on_event: &mut (dyn FnMut(&Event) + Send),
    ) -> Result<Turn, RunError> {
        let request = ModelRequest {
            messages: self.history.messages(),
            tools: &offer.lowered,
            hosted: &offer.hosted_wire,
            tool_choice,
        };
        let mut on_text = |text: &str| on_event(&Event::TextDelta { text: text.to_owned() });
        let mut turn = self.model.turn(request, &mut on_text).await?;
        self.observe(&turn, &offer.hosted, on_event).await?;
        let is_paused = turn.finish == Finish::Paused;
        if turn.calls.is_empty() && turn.text.trim_ascii().is_empty() && !is_paused {
            return Err(ModelError::Empty { finish: turn.finish.as_str().to_owned() }.into());
        }
        self.history.push_turn(&mut turn);
        self.record(|| Line::Turn { round, turn: turn.clone() })?;
        if let Some(session) = &mut self.session {
            session.turn(round, &turn, |tool| offer.reads(tool)).await?;
        }
        on_event(&Event::Turn { round, turn: turn.clone() });
        Ok(turn)
    }

    /// Compares results with those of a recording that is replayed.
    fn compare(
        &self,
        turn: &Turn,
        results: Vec<ResultRecord>,
        differences: &mut Vec<Difference>,
        on_event: &mut (dyn FnMut(&Event) + Send),
    ) {
        for (call, actual) in turn.calls.iter().zip(results) {
            if let Some(recorded) = self.model.recorded(&call.id).filter(|recorded| !recorded.is_same(&actual)) {
                let difference = Difference { call_id: call.id.clone(), tool: call.name.clone(), recorded, actual };
                on_event(&Event::Difference(difference.clone()));
                differences.push(difference);
            }
        }
    }

    fn record(&mut self, line: impl FnOnce() -> Line) -> Result<(), RunError> {
        match &mut self.recorder {
            Some(recorder) => Ok(recorder.write(&line())?),
            None => Ok(()),
        }
    }
}

/// The conversation with what the model is told to be.
fn conversation(options: &Options, messages: Vec<Message>) -> History {
    let system = options.system.iter().map(|system| Message::System(system.clone()));
    History::from(system.chain(messages).collect::<Vec<_>>())
}

/// A forced choice holds until the model has called.
fn unforced(choice: ToolChoice) -> ToolChoice {
    match choice {
        ToolChoice::Required | ToolChoice::Named(_) => ToolChoice::Auto,
        ToolChoice::Allowed { required: true, tools } => ToolChoice::Allowed { required: false, tools },
        ToolChoice::Auto | ToolChoice::None | ToolChoice::Allowed { .. } => choice,
    }
}

/// Why a call does not go to the door at all.
fn refusal(position: usize, call: &ModelCall, choice: &ToolChoice, withheld: &HashSet<String>) -> Option<ErrorObject> {
    if let Some(refusal) = &call.refusal {
        return Some(refusal.clone());
    }
    if *choice == ToolChoice::None {
        // Not every server heeds `none`.
        return Some(Text::NoCalls.error(&[]));
    }
    if position >= limits::CALLS_PER_TURN_MAX {
        return Some(Text::TurnFull.error(&[("max", &limits::CALLS_PER_TURN_MAX)]));
    }
    if let ToolChoice::Allowed { tools, .. } = choice
        && !tools.contains(&call.name)
    {
        return Some(Text::NotOffered.error(&[("name", &call.name)]));
    }
    withheld.contains(&call.name).then(|| Text::NotOffered.error(&[("name", &call.name)]))
}
