//! The report of a fault that has happened to a call.

/// The report of a fault that has happened to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultReport {
    /// The call.
    pub call: String,
    /// The specifications that ask for it.
    pub specs: String,
    /// How the call ends: an error, a signal or a completion's status by its name; empty if all seems well.
    pub outcome: String,
}

impl FaultReport {
    /// More bytes than all specifications of a command line have.
    const MAX: usize = 4096;

    /// A line for each.
    pub fn encode(&self) -> String {
        format!("{}\n{}\n{}", self.call, self.specs, self.outcome)
    }

    /// `None` for what is none.
    pub fn decode(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok().filter(|text| text.len() <= Self::MAX)?;
        let mut lines = text.split('\n');
        let mut line = || lines.next().filter(|line| !line.contains(char::is_control));
        let (call, specs, outcome) = (line()?, line()?, line()?);
        if lines.next().is_some() {
            return None;
        }
        Some(Self { call: call.into(), specs: specs.into(), outcome: outcome.into() })
    }
}
