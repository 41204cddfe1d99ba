//! cmtime of rdma-core: many connections, one step of all after the other.

use crate::LOCALHOST;
use crate::place::Place;
use crate::program::Program;
use crate::tcp;

/// How the sides of a release find each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sides {
    /// The server serves one client after the other until it is killed.
    Serves,
    /// From rdma-core 52 on they keep in step by TCP, and the server ends with its client.
    InStep,
    /// From 59 on they are peers of each other.
    Peers,
}

/// The program that is installed, with so many connections at a port.
#[derive(Clone, Copy, Debug)]
pub struct Cmtime {
    sides: Sides,
    port: u16,
    connections: u32,
}

impl Cmtime {
    /// The release is known by the options that it lists.
    pub fn new(place: &Place, port: u16, connections: u32) -> Self {
        let mut usage = place.start("cmtime -h");
        usage.wait();
        let usage = usage.output();
        let sides = if usage.contains("controller_address") {
            Sides::Peers
        } else if usage.contains("num_threads") {
            Sides::InStep
        } else {
            Sides::Serves
        };
        Self { sides, port, connections }
    }

    /// Whether the server serves until it is killed.
    pub fn serves(self) -> bool {
        self.sides == Sides::Serves
    }

    fn start(self, place: &Place, side: &str) -> Program {
        place.start(&format!("cmtime -p {} -c {} {side}", self.port, self.connections))
    }

    /// Starts the server, and waits until it listens.
    pub fn start_server(self, place: &Place) -> Program {
        let side = match self.sides {
            Sides::Peers => format!("-L -b {LOCALHOST} -C {LOCALHOST}"),
            Sides::InStep | Sides::Serves => format!("-b {LOCALHOST}"),
        };
        let mut server = self.start(place, &side);
        server.wait_until(|| {
            if self.serves() { place.listens(self.port) } else { tcp::listens(self.port) }
        });
        server
    }

    /// Starts the client.
    pub fn start_client(self, place: &Place) -> Program {
        let side = match self.sides {
            Sides::Peers => format!("-b {LOCALHOST} -C {LOCALHOST}"),
            Sides::InStep | Sides::Serves => format!("-s {LOCALHOST}"),
        };
        self.start(place, &side)
    }
}
