//! Two sides that write numbers to each other's memory in turn. Each waits by looking at its memory, which is wrong, or
//! for the immediate data that come with the number.

use std::hint;

use crate::side::{Remote, Result, Side, check};

const ROUNDS: u8 = 192;
/// The receive in which a write with immediate data is told of.
const TOLD: usize = 2;

/// The completions so far.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    writes: u8,
    receives: u8,
}

impl Done {
    fn poll(&mut self, side: &Side) -> Result<()> {
        if let Some((number, is_good)) = side.poll_number()? {
            check(is_good, "a completion with an error")?;
            let count = if number == TOLD as u64 { &mut self.receives } else { &mut self.writes };
            *count += 1;
        }
        Ok(())
    }
}

/// One side, which begins or not. A write of its own was polled when the next one is posted.
pub fn take_turns(side: &mut Side, peer: Remote, is_first: bool, is_wrong: bool) -> Result<()> {
    side.receive(TOLD)?;
    side.step()?;
    if !is_first {
        side.await_step()?;
    }
    let mut done = Done::default();
    for number in 1..=ROUNDS {
        if is_first {
            side.write(number, peer, !is_wrong)?;
        }
        if is_wrong {
            while side.written() != number {
                hint::spin_loop();
            }
        } else {
            while done.receives < number {
                done.poll(side)?;
            }
            check(side.written() == number, "the number")?;
            side.receive(TOLD)?;
        }
        while done.writes < if is_first { number } else { number - 1 } {
            done.poll(side)?;
        }
        if !is_first {
            side.write(number, peer, !is_wrong)?;
        }
    }
    while done.writes < ROUNDS {
        done.poll(side)?;
    }
    Ok(())
}
