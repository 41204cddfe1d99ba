//! Runs a pair: starts the server, waits until it listens, starts the client,
//! collects both outputs, kills by plan and enforces the time limit.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant, SystemTime};

use regex::Regex;

use crate::error::Error;
use crate::listen::{Readiness, Ready};
use crate::peer::TcpPeer;
use crate::process::{Ending, Event, Program, Running};
use crate::suspend::{self, Suspension};
use crate::transcript::{Line, Side, Transcript};

/// Pause between two looks at a condition, if nothing else happens.
const TICK: Duration = Duration::from_millis(20);
/// How often an [`Observer`] is asked what it thinks of the run.
const LOOK_TICK: Duration = Duration::from_millis(100);
/// How long a settled run goes on before it is ended, usually.
const SETTLED_FOR: Duration = Duration::from_secs(3);
/// How long the streams of killed processes may take to come to their end.
const DRAIN: Duration = Duration::from_secs(10);

/// In an argument of the client: the port that the server has said.
pub const PORT: &str = "{port}";

/// The second side of a pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Client {
    /// A program like the first.
    Program(Program),
    /// A plain TCP connection made by the harness itself.
    Tcp(TcpPeer),
}

/// A signal at a given time.
#[derive(Clone, Debug)]
pub struct Kill {
    /// The side that gets it.
    pub who: Side,
    /// Its number.
    pub signal: i32,
    /// Text that each side prints first.
    pub once: BTreeMap<Side, String>,
    /// When, counted from there, but not from before the time limit's start.
    pub after: Duration,
}

/// The events planned for a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Started first.
    pub server: Option<Program>,
    /// Started when the server is ready or has ended.
    pub client: Option<Client>,
    /// When the server counts as ready.
    pub ready: Ready,
    /// How long that may take.
    pub ready_limit: Duration,
    /// How long the run may take, from the start of the client, or of the server
    /// if there is no client.
    pub limit: Duration,
    /// A side that does not live that long.
    pub kill: Option<Kill>,
    /// Is the server stopped, like a process that gets no processor, from when it is ready until
    /// the client has ended?
    pub server_stopped: bool,
    /// Of a server that serves for ever: the line that says that it is done with the client. It
    /// is ended with SIGTERM after that, and after the client's end.
    pub served: Option<Regex>,
}

impl Plan {
    /// The programs it starts.
    pub fn programs(&self) -> impl Iterator<Item = &Program> {
        let client = match &self.client {
            Some(Client::Program(program)) => Some(program),
            Some(Client::Tcp(_)) | None => None,
        };
        self.server.iter().chain(client)
    }
}

/// How a run went.
#[derive(Debug)]
pub struct Outcome {
    /// How the server ended, if there was one.
    pub server: Option<Ending>,
    /// How the client ended, if it was started.
    pub client: Option<Ending>,
    /// Everything both printed.
    pub transcript: Transcript,
    /// When the first process was started, by this machine's clock.
    pub began: SystemTime,
    /// From then to the end of the last process.
    pub elapsed: Duration,
    /// Why the client could not be started, if it should have been.
    pub never_ready: Option<String>,
}

impl Outcome {
    /// How one side ended.
    pub fn ending(&self, side: Side) -> Option<Ending> {
        match side {
            Side::Server => self.server,
            Side::Client => self.client,
        }
    }
}

/// Somebody who looks on.
pub trait Observer {
    /// A line was printed.
    fn line(&mut self, _line: &Line) {}

    /// A kill is due: is `victim` as far as it should be by then? On a slow machine
    /// it may not be; the signal is then held back, and the time limit with it.
    fn may_kill(&mut self, _victim: Side, _so_far: &Progress<'_>) -> bool {
        true
    }

    /// Is the outcome as expected up to the sides that are still running, and
    /// are those expected to run until their time is over? If this stays true for
    /// [`Observer::settled_for`] the rest of the time limit is not waited for.
    fn is_settled(&mut self, _so_far: &Progress<'_>) -> bool {
        false
    }

    /// How long a settled run goes on before it is ended.
    fn settled_for(&self) -> Duration {
        SETTLED_FOR
    }
}

/// Looks at nothing.
#[derive(Debug)]
pub struct Unobserved;

impl Observer for Unobserved {}

/// A run that is not over yet.
#[derive(Debug)]
pub struct Progress<'a> {
    /// Lines so far.
    pub transcript: &'a Transcript,
    /// How the server ended, if it has.
    pub server: Option<Ending>,
    /// How the client ended, if it has.
    pub client: Option<Ending>,
}

/// Runs `plan` to its end. Nothing that it started is left when it returns.
pub fn run(plan: &Plan, observer: &mut dyn Observer) -> Result<Outcome, Error> {
    Run::new(plan, observer).execute()
}

/// The client's side of a run.
#[derive(Debug)]
enum ClientState {
    /// Waits for the server.
    Waiting,
    Process(Running),
    /// A thread of ours, with its ending once it has one.
    Thread(Option<Ending>),
    /// There is none.
    None,
}

struct Run<'a> {
    plan: &'a Plan,
    observer: &'a mut dyn Observer,
    began: SystemTime,
    start: Instant,
    events: Receiver<Event>,
    sender: SyncSender<Event>,
    transcript: Transcript,
    server: Option<Running>,
    client: ClientState,
    never_ready: Option<String>,
    timed_out: bool,
    /// The plan has stopped the server.
    server_stopped: bool,
    _suspension: Suspension,
}

impl<'a> Run<'a> {
    fn new(plan: &'a Plan, observer: &'a mut dyn Observer) -> Run<'a> {
        // Bounded: a side that prints faster than we take note has to wait.
        let (sender, events) = mpsc::sync_channel(1024);
        Run {
            plan,
            observer,
            began: SystemTime::now(),
            start: Instant::now(),
            events,
            sender,
            transcript: Transcript::default(),
            server: None,
            client: if plan.client.is_some() { ClientState::Waiting } else { ClientState::None },
            never_ready: None,
            timed_out: false,
            server_stopped: false,
            _suspension: Suspension::heed(),
        }
    }

    fn execute(mut self) -> Result<Outcome, Error> {
        if let Some(program) = &self.plan.server {
            self.server = Some(Running::start(program, Side::Server, self.start, &self.sender)?);
            if self.plan.client.is_some() {
                self.await_server()?;
            }
        }
        if self.plan.server_stopped {
            self.signal(Side::Server, libc::SIGSTOP);
            self.server_stopped = true;
        }
        if self.never_ready.is_none() {
            self.start_client()?;
        }
        if self.never_ready.is_none() {
            self.await_end();
        }
        self.end_the_rest();
        Ok(Outcome {
            server: self.ending(Side::Server),
            client: self.ending(Side::Client),
            transcript: self.transcript,
            began: self.began,
            elapsed: self.start.elapsed(),
            never_ready: self.never_ready,
        })
    }

    fn await_server(&mut self) -> Result<(), Error> {
        let mut condition: Box<dyn Readiness> = self.plan.ready.condition();
        let deadline = suspend::now() + self.plan.ready_limit;
        while let Some(server) = &self.server {
            if server.ending().is_some() {
                return Ok(());
            }
            let pid = server.pid();
            if condition.is_ready(pid, &self.transcript)? {
                return Ok(());
            }
            if suspend::now() >= deadline {
                self.never_ready = Some(format!(
                    "the server did not show {} within {} s",
                    condition.awaited(),
                    self.plan.ready_limit.as_secs()
                ));
                return Ok(());
            }
            self.take_events_for(TICK);
        }
        Ok(())
    }

    fn start_client(&mut self) -> Result<(), Error> {
        self.client = match &self.plan.client {
            None => ClientState::None,
            Some(Client::Program(program)) => {
                let Some(program) = self.with_port(program) else {
                    let why = "the server ended before it said its port";
                    self.never_ready = Some(why.to_owned());
                    return Ok(());
                };
                ClientState::Process(Running::start(
                    &program,
                    Side::Client,
                    self.start,
                    &self.sender,
                )?)
            }
            Some(Client::Tcp(peer)) => {
                peer.start(self.start, self.sender.clone());
                ClientState::Thread(None)
            }
        };
        Ok(())
    }

    /// The program with the server's port, if it needs one.
    fn with_port(&self, program: &Program) -> Option<Program> {
        let mut program = program.clone();
        for arg in &mut program.args {
            let text = arg.to_string_lossy();
            if text.contains(PORT) {
                *arg = text.replace(PORT, &self.plan.ready.port(&self.transcript)?).into();
            }
        }
        Some(program)
    }

    /// Until all sides are over, the time is, or the rest need not be waited for.
    fn await_end(&mut self) {
        let base = suspend::now();
        let mut deadline = base + self.plan.limit;
        let mut kill = self.plan.kill.as_ref();
        let mut kill_from = None;
        let mut next_look = base;
        let mut settled_since = None;
        let mut served = self.plan.served.as_ref();
        while !self.is_over() {
            let now = suspend::now();
            if now >= next_look {
                next_look = now + LOOK_TICK;
                if self.server_stopped && self.ending(Side::Client).is_some() {
                    self.signal(Side::Server, libc::SIGCONT);
                    self.server_stopped = false;
                }
                if let Some(says) = served {
                    if self.has_served(says) {
                        self.signal(Side::Server, libc::SIGTERM);
                        served = None;
                    }
                }
                if kill.is_some() || !self.is_settled() {
                    settled_since = None;
                } else if now.duration_since(*settled_since.get_or_insert(now))
                    >= self.observer.settled_for()
                {
                    return;
                }
            }
            // A run is over long before the next look at it where messages are fast.
            if let Some(planned) = kill {
                kill_from = kill_from.or_else(|| self.have_said(&planned.once).then_some(now));
                let due = kill_from.unwrap_or(base) + planned.after;
                let held_back = now.saturating_duration_since(due);
                // A victim that never gets there is killed all the same.
                let may = kill_from.is_some() && due <= now && self.may_kill(planned.who);
                if may || held_back >= self.plan.limit {
                    self.signal(planned.who, planned.signal);
                    deadline = now + self.plan.limit.saturating_sub(planned.after);
                    kill = None;
                }
            }
            if now >= deadline && kill.is_none() {
                return;
            }
            let pause = next_look.saturating_duration_since(now);
            self.take_events_for(pause.clamp(Duration::from_millis(1), TICK));
        }
    }

    /// Is a server that serves for ever done with the client, or need it not be waited for?
    fn has_served(&self, says: &Regex) -> bool {
        let lines = self.transcript.lines();
        match self.ending(Side::Client) {
            Some(Ending::Code(0)) => {
                lines.iter().any(|line| line.side == Side::Server && says.is_match(&line.text))
            }
            ending => ending.is_some(),
        }
    }

    /// Has each side printed a line with this in it?
    fn have_said(&self, texts: &BTreeMap<Side, String>) -> bool {
        texts.iter().all(|(&side, text)| {
            self.transcript.lines().iter().any(|line| line.side == side && line.text.contains(text))
        })
    }

    fn may_kill(&mut self, victim: Side) -> bool {
        if self.ending(victim).is_some() {
            return true;
        }
        let so_far = Progress {
            transcript: &self.transcript,
            server: self.ending(Side::Server),
            client: self.ending(Side::Client),
        };
        self.observer.may_kill(victim, &so_far)
    }

    /// Kills what still runs and waits for the end of every stream.
    fn end_the_rest(&mut self) {
        self.timed_out = true;
        for side in Side::BOTH {
            self.signal(side, libc::SIGKILL);
        }
        if let ClientState::Thread(ending) = &mut self.client {
            ending.get_or_insert(Ending::TimedOut);
        }
        let deadline = Instant::now() + DRAIN;
        while !self.is_over() && Instant::now() < deadline {
            self.take_events_for(TICK);
        }
    }

    /// Handles what happens within `time`; returns at once after the first event
    /// and those that wait behind it.
    fn take_events_for(&mut self, time: Duration) {
        if suspend::is_asked() {
            self.suspend();
        }
        match self.events.recv_timeout(time) {
            Ok(event) => self.take(event),
            // We hold a sender ourselves, so the channel is never disconnected.
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
        }
        // Bounded, so that an endless stream cannot keep us from looking at the clock.
        for _ in 0..1024 {
            match self.events.try_recv() {
                Ok(event) => self.take(event),
                Err(_) => return,
            }
        }
    }

    /// Stops both sides and this program, until a SIGCONT continues it; then continues the sides
    /// that the plan has not stopped.
    fn suspend(&mut self) {
        for side in Side::BOTH {
            // No program can catch or ignore SIGSTOP.
            self.signal(side, libc::SIGSTOP);
        }
        suspend::stop();
        self.signal(Side::Client, libc::SIGCONT);
        if !self.server_stopped {
            self.signal(Side::Server, libc::SIGCONT);
        }
    }

    fn take(&mut self, event: Event) {
        let timed_out = self.timed_out;
        match event {
            Event::Line(line) => {
                self.observer.line(&line);
                self.transcript.push(line);
            }
            Event::Closed(side) => {
                if let Some(running) = self.running(side) {
                    running.stream_closed();
                }
            }
            Event::Exited(side) => {
                if let Some(running) = self.running(side) {
                    running.reap(timed_out);
                }
            }
            Event::Done(ending) => {
                if let ClientState::Thread(state) = &mut self.client {
                    state.get_or_insert(ending);
                }
            }
        }
    }

    fn running(&mut self, side: Side) -> Option<&mut Running> {
        match (side, &mut self.client) {
            (Side::Server, _) => self.server.as_mut(),
            (Side::Client, ClientState::Process(running)) => Some(running),
            (Side::Client, _) => None,
        }
    }

    fn signal(&mut self, side: Side, signal: i32) {
        if let Some(running) = self.running(side) {
            running.signal(signal);
        }
    }

    fn ending(&self, side: Side) -> Option<Ending> {
        match (side, &self.client) {
            (Side::Server, _) => self.server.as_ref().and_then(Running::ending),
            (Side::Client, ClientState::Process(running)) => running.ending(),
            (Side::Client, ClientState::Thread(ending)) => *ending,
            (Side::Client, _) => None,
        }
    }

    fn is_over(&self) -> bool {
        let client = match &self.client {
            ClientState::Process(running) => running.is_over(),
            ClientState::Thread(ending) => ending.is_some(),
            ClientState::Waiting | ClientState::None => true,
        };
        client && self.server.as_ref().is_none_or(Running::is_over)
    }

    fn is_settled(&mut self) -> bool {
        let so_far = Progress {
            transcript: &self.transcript,
            server: self.ending(Side::Server),
            client: self.ending(Side::Client),
        };
        self.observer.is_settled(&so_far)
    }
}
