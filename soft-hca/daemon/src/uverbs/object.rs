//! Objects behind handles. A file has one space of handles for all kinds, lowest free first.

pub(crate) use soft_hca_core::errno::ObjectKind as Kind;
use soft_hca_core::errno::{Errno, Label, Refusal, Result, Values};

use crate::fabric::Fabric;
use crate::free::Free;

/// The object of a handle: the entry's index in the arena, or a number of the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Object {
    Pd { pd: u32 },
    Mr { index: usize, pd: u32 },
    Mw { index: usize, pd: u32 },
    Ah { index: usize, pd: u32 },
    Cq { index: usize },
    Srq { index: usize, pd: u32 },
    Qp { index: usize, pd: u32 },
}

/// A handle leads to no object.
pub(super) const fn nothing(kind: Kind) -> Errno {
    Errno::ENOENT.because(Refusal::NoObject(kind))
}

/// A handle leads to an object of another kind.
pub(super) const fn another(kind: Kind) -> Errno {
    Errno::EINVAL.because(Refusal::OtherObject(kind))
}

/// The order in which a closing file destroys its objects.
pub(crate) const DESTRUCTION: [Kind; 7] =
    [Kind::Qp, Kind::Ah, Kind::Mw, Kind::Mr, Kind::Srq, Kind::Cq, Kind::Pd];

impl Object {
    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::Pd { .. } => Kind::Pd,
            Self::Mr { .. } => Kind::Mr,
            Self::Mw { .. } => Kind::Mw,
            Self::Ah { .. } => Kind::Ah,
            Self::Cq { .. } => Kind::Cq,
            Self::Srq { .. } => Kind::Srq,
            Self::Qp { .. } => Kind::Qp,
        }
    }

    /// The protection domain that the object belongs to.
    pub(crate) fn uses_pd(self) -> Option<u32> {
        match self {
            Self::Mr { pd, .. }
            | Self::Mw { pd, .. }
            | Self::Ah { pd, .. }
            | Self::Srq { pd, .. }
            | Self::Qp { pd, .. } => Some(pd),
            Self::Pd { .. } | Self::Cq { .. } => None,
        }
    }

    /// Takes the object out of the arena; `ERESTART` as [`Fabric::lock`].
    pub(crate) fn destroy(self, fabric: &mut Fabric) -> Result<()> {
        match self {
            Self::Pd { .. } => fabric.release_pd(),
            Self::Mr { index, .. } | Self::Mw { index, .. } => drop(fabric.release_mr(index)),
            Self::Ah { index, .. } => fabric.release_ah(index),
            Self::Cq { index } => fabric.release_cq(index)?,
            Self::Srq { index, .. } => fabric.release_srq(index)?,
            Self::Qp { index, .. } => fabric.release_qp(index)?,
        }
        Ok(())
    }
}

/// The handles of a file.
#[derive(Debug)]
pub(crate) struct Handles {
    objects: Vec<Option<Object>>,
    free: Free,
}

impl Default for Handles {
    fn default() -> Self {
        Self { objects: Vec::new(), free: Free::new(0..usize::MAX) }
    }
}

impl Handles {
    /// Gives an object the lowest free handle.
    pub(crate) fn insert(&mut self, object: Object) -> u32 {
        let handle = self.free.take_lowest().expect("there are more numbers than memory");
        if handle == self.objects.len() {
            self.objects.push(None);
        }
        self.objects[handle] = Some(object);
        handle as u32
    }

    /// The object behind a handle: `ENOENT` if there is none, `EINVAL` if it is of another kind.
    pub(crate) fn get(&self, handle: u32, kind: Kind) -> Result<Object> {
        let given = Values::of([(Label::Handle, handle as u64)]);
        let object = self.objects.get(handle as usize).copied().flatten();
        let object = object.ok_or(nothing(kind).with(given))?;
        if object.kind() == kind { Ok(object) } else { Err(another(kind).with(given)) }
    }

    /// Frees a handle.
    pub(crate) fn remove(&mut self, handle: u32) -> Option<Object> {
        let object = self.objects.get_mut(handle as usize)?.take()?;
        self.free.release(handle as usize);
        Some(object)
    }

    /// All objects.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, Object)> + '_ {
        (0..).zip(&self.objects).filter_map(|(handle, object)| Some((handle, (*object)?)))
    }

    /// The handles of a kind.
    pub(crate) fn of_kind(&self, kind: Kind) -> Vec<u32> {
        self.iter().filter(|(_, object)| object.kind() == kind).map(|(handle, _)| handle).collect()
    }

    /// The protection domain's number behind a handle.
    pub(crate) fn pd(&self, handle: u32) -> Result<u32> {
        match self.get(handle, Kind::Pd)? {
            Object::Pd { pd } => Ok(pd),
            _ => Err(another(Kind::Pd)),
        }
    }

    /// The index of the entry behind a handle.
    pub(crate) fn index(&self, handle: u32, kind: Kind) -> Result<usize> {
        match self.get(handle, kind)? {
            Object::Mr { index, .. }
            | Object::Mw { index, .. }
            | Object::Ah { index, .. }
            | Object::Cq { index }
            | Object::Srq { index, .. }
            | Object::Qp { index, .. } => Ok(index),
            Object::Pd { .. } => Err(another(kind)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lowest_handle_first() {
        let mut handles = Handles::default();
        assert_eq!(handles.insert(Object::Pd { pd: 1 }), 0);
        assert_eq!(handles.insert(Object::Cq { index: 5 }), 1);
        handles.remove(0);
        assert_eq!(handles.insert(Object::Pd { pd: 2 }), 0);
        assert_eq!(handles.get(1, Kind::Pd), Err(Errno::EINVAL));
        assert_eq!(handles.get(2, Kind::Pd), Err(Errno::ENOENT));
        assert_eq!((handles.pd(0), handles.index(1, Kind::Cq)), (Ok(2), Ok(5)));
    }
}
