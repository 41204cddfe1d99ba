//! Functions of contexts, which inline functions of `verbs.h` call: each context gets ours when it is
//! opened.

use std::collections::HashMap;
use std::ffi::c_int;
use std::mem::{offset_of, size_of};
use std::sync::{PoisonError, RwLock};

use soft_hca_fault::Verb;
use soft_hca_fault::each_verb;

use crate::argument::{Argument, Ptr, Qp};
use crate::layout::{ABI_IS_EXTENDED, Context, Extended, Wc, Wr, function};
use crate::{failed, faults, returned};

const POLL: usize = Verb::index_of("ibv_poll_cq");
/// Calls whose last arguments are a list of work requests and where the one is put that fails.
const POSTING: [usize; 3] = [
    Verb::index_of("ibv_post_send"),
    Verb::index_of("ibv_post_recv"),
    Verb::index_of("ibv_post_srq_recv"),
];

/// The context of an object: what all structures of verbs.h begin with.
unsafe fn context_of(object: usize) -> usize {
    // SAFETY: the caller passes an object of verbs.h, and all of these begin with their context.
    unsafe { *(object as *const usize) }
}

/// A call has failed. One that posts says which work request has: the first.
unsafe fn refused(verb: usize, arguments: &[usize]) {
    if let (true, [_, first, bad]) = (POSTING.contains(&verb), arguments) {
        // SAFETY: the caller has room for a pointer there.
        unsafe { *(*bad as *mut usize) = *first };
    }
}

/// A call has been made.
unsafe fn made(verb: usize, arguments: &[usize], returned: c_int) {
    if let (POLL, [_, _, wc]) = (verb, arguments) {
        // SAFETY: so many completions were written there.
        unsafe { faults::polled(*wc as *mut Wc, returned) };
    }
    if let (true, 0, [_, first, _]) = (POSTING.contains(&verb), returned, arguments) {
        // SAFETY: the caller's list of work requests, which was posted.
        unsafe { faults::posted(verb != POSTING[0], *first as *const Wr) };
    }
}

macro_rules! functions {
    (
        exported { $($exported:tt)* }
        operations {
            $($name:ident = $field:ident($($arg:ident: $type:ident),*) -> $fails:ident;)*
        }
        extended {
            $($e_name:ident = $e_field:ident($($e_arg:ident: $e_type:ident),*) -> $e_fails:ident;)*
        }
    ) => {
        /// A context's own functions.
        #[derive(Clone, Copy, Default)]
        struct Own {
            $($field: Option<function::$field>,)*
            $($e_field: Option<function::$e_field>,)*
        }

        impl Own {
            /// Puts ours in their places.
            fn hook(&mut self, context: &mut Context) {
                $(self.$field = context.$field.replace($field);)*
            }

            /// The same around the context. What is not there stays so.
            ///
            /// # Safety
            ///
            /// The context is the end of such a structure, of which it says how much is there.
            unsafe fn hook_extended(&mut self, extended: *mut Extended) {
                // SAFETY: this word is in front of every context of this kind.
                let size = unsafe { (&raw const (*extended).size).read() };
                let missing = size_of::<Extended>().saturating_sub(size);
                $(if offset_of!(Extended, $e_field) >= missing {
                    // SAFETY: the structure reaches beyond this field, by its own size.
                    let field = unsafe { &mut *(&raw mut (*extended).$e_field) };
                    if field.is_some() {
                        self.$e_field = field.replace($e_field);
                    }
                })*
            }
        }

        $(
            unsafe extern "C-unwind" fn $field($($arg: $type),*) -> returned!($fails) {
                const VERB: usize = Verb::index_of(stringify!($name));
                let words = [$($arg.word()),*];
                // SAFETY: the program passes what the function's declaration says, or null.
                let errno = faults::meet(VERB, || None$(.or(unsafe { $arg.qpn() }))*);
                // SAFETY: the first argument is an object of the context that has called this function.
                let own = own(unsafe { context_of(words[0]) }).$field;
                let (None, Some(function)) = (errno, own) else {
                    let _errno = errno.unwrap_or(libc::EOPNOTSUPP);
                    if _errno != 0 {
                        // SAFETY: the words are those that the program has passed to this function.
                        unsafe { refused(VERB, &words) };
                    }
                    return failed!($fails, _errno);
                };
                faults::enter();
                // SAFETY: the provider's function gets what the program has given to ours.
                let returned = unsafe { function($($arg),*) };
                faults::leave();
                // SAFETY: the words are the program's, and the provider's function has returned this for them.
                unsafe { made(VERB, &words, returned.word() as c_int) };
                returned
            }
        )*

        $(
            unsafe extern "C-unwind" fn $e_field($($e_arg: $e_type),*) -> returned!($e_fails) {
                const VERB: usize = Verb::index_of(stringify!($e_name));
                let errno = faults::meet(VERB, || None);
                let context = [$($e_arg.word()),*][0];
                let (None, Some(function)) = (errno, own(context).$e_field) else {
                    let _errno = errno.unwrap_or(libc::EOPNOTSUPP);
                    return failed!($e_fails, _errno);
                };
                faults::enter();
                // SAFETY: the provider's function gets what the program has given to ours.
                let returned = unsafe { function($($e_arg),*) };
                faults::leave();
                returned
            }
        )*
    };
}

each_verb!(functions);

/// The functions of contexts, by address.
static OWN: RwLock<Option<HashMap<usize, Own>>> = RwLock::new(None);

fn own(context: usize) -> Own {
    let own = OWN.read().unwrap_or_else(PoisonError::into_inner);
    own.as_ref().and_then(|own| own.get(&context)).copied().unwrap_or_default()
}

/// Puts our functions into a context.
///
/// # Safety
///
/// The address is that of a context that nobody uses yet, or 0.
pub(crate) unsafe fn hook(address: usize) {
    // SAFETY: the caller promises that it is 0 or a context that nobody uses yet.
    let Some(context) = (unsafe { (address as *mut Context).as_mut() }) else { return };
    let is_ours = |now| std::ptr::fn_addr_eq(now, post_send as function::post_send);
    if context.post_send.is_some_and(is_ours) {
        return;
    }
    let mut own = Own::default();
    own.hook(context);
    if context.abi_compat == ABI_IS_EXTENDED {
        let around = address - offset_of!(Extended, context);
        // SAFETY: the context says that it is the end of this.
        unsafe { own.hook_extended(around as *mut Extended) };
    }
    let mut all = OWN.write().unwrap_or_else(PoisonError::into_inner);
    all.get_or_insert_default().insert(address, own);
}
