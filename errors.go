package parley

import (
	"context"
	"errors"
	"fmt"

	"github.com/parleymq/parley/backend"
)

// Errors of the store, told apart with errors.Is. Package backend says more of
// each.
var (
	ErrClosed         = backend.ErrClosed
	ErrTxDone         = backend.ErrTxDone
	ErrRowsOpen       = backend.ErrRowsOpen
	ErrNoTx           = backend.ErrNoTx
	ErrTxSettings     = backend.ErrTxSettings
	ErrEndsTx         = backend.ErrEndsTx
	ErrNotMigrated    = backend.ErrNotMigrated
	ErrNewerSchema    = backend.ErrNewerSchema
	ErrUnknownSchema  = backend.ErrUnknownSchema
	ErrMigrationWaits = backend.ErrMigrationWaits
	ErrOlderPrograms  = backend.ErrOlderPrograms
	ErrReadOnly       = backend.ErrReadOnly
	ErrDenied         = backend.ErrDenied
	ErrNoSpace        = backend.ErrNoSpace
	ErrReplaced       = backend.ErrReplaced
	ErrNotBegun       = backend.ErrNotBegun
	ErrConnection     = backend.ErrConnection
	ErrSerialization  = backend.ErrSerialization
	ErrIsolation      = backend.ErrIsolation
	ErrWouldDeadlock  = backend.ErrWouldDeadlock
	ErrQueueDisabled  = backend.ErrQueueDisabled
	ErrNoConversation = backend.ErrNoConversation
	ErrEnded          = backend.ErrEnded
	ErrUnknownGroup   = backend.ErrNoGroup
	ErrGroupBusy      = backend.ErrGroupBusy
	ErrGroupElsewhere = backend.ErrGroupElsewhere
	ErrFenced         = backend.ErrFenced
	ErrNotPending     = backend.ErrNotPending
	ErrCancelled      = backend.ErrCancelled
	ErrTooLarge       = backend.ErrTooLarge
	ErrUnknownScheme  = backend.ErrUnknownScheme
	ErrLockTimeout    = backend.ErrLockTimeout
	ErrLockDeadlock   = backend.ErrLockDeadlock
	ErrNotLocked      = backend.ErrNotLocked
)

// Errors of Parley's own rules.
var (
	// ErrNoMessage: Receive and GetGroup found nothing within their wait.
	ErrNoMessage = errors.New("no message")

	// ErrUnreachable: Open has not reached the database. It is an ErrConnection too.
	ErrUnreachable = errors.New("the database cannot be reached")

	// ErrUnknownQueue and the errors below it: the name is not defined.
	ErrUnknownQueue    = errors.New("the queue is not defined")
	ErrUnknownService  = errors.New("the service is not defined")
	ErrUnknownContract = errors.New("the contract is not defined")
	ErrUnknownType     = errors.New("the message type is not defined")

	// ErrTypeNotAllowed: the contract does not let this side send the type.
	ErrTypeNotAllowed = errors.New("the contract does not let this side send the type")

	// ErrFarEnded: the other side has ended; nothing more can be sent.
	ErrFarEnded = errors.New("the conversation was ended by the other side")

	// ErrConversationError: the conversation is in error; the error is a
	// *DialogError as well. Nothing more can be sent; end it.
	ErrConversationError = errors.New("the conversation is in error")

	// ErrSealed: this side has sent EndOfStream; nothing more can be sent.
	ErrSealed = errors.New("the last message of the conversation has been sent")

	// ErrSenderFailed: a Sender tried several dialogs and could send on none. The error of
	// the last dialog is wrapped as well.
	ErrSenderFailed = errors.New("no dialog takes the message")

	// ErrInvalidBody: the body is not what the message type asks for.
	ErrInvalidBody = errors.New("the body is not valid for its type")

	// ErrNoValidator: the type's Go validator is not registered in this process.
	ErrNoValidator = errors.New("the validator is not registered in this process")

	// ErrInvalidName: empty, too long, not UTF-8, or reserved.
	ErrInvalidName = backend.ErrInvalidName

	// ErrInvalidOption: an option is out of range or contradicts another.
	ErrInvalidOption = errors.New("invalid option")

	// ErrContradiction: a definition contradicts itself or what is stored.
	ErrContradiction = errors.New("the definition is contradictory")

	// ErrInvalidErrorCode: END WITH ERROR takes a code above zero and a text.
	ErrInvalidErrorCode = errors.New("an error needs a code above zero and a text")

	// ErrPromotionRefused: the other side's service does not allow its peer to
	// promote the conversation, or not so high.
	ErrPromotionRefused = errors.New("the service does not allow this promotion by the far side")

	// ErrBeyondLifetime: the timer would be due after the conversation's end.
	ErrBeyondLifetime = errors.New("the timer would be due after the conversation's lifetime")

	// ErrNotJoinable: the backend cannot work in a transaction of the caller's.
	ErrNotJoinable = errors.New("this backend cannot join a transaction")

	// ErrNoHandler: the worker has no handler for the message's type.
	ErrNoHandler = errors.New("there is no handler for it")

	// ErrDeadly: receivers died while they had the message in hand.
	ErrDeadly = errors.New("handling it kills the process")

	// ErrWorking: the worker is running already.
	ErrWorking = errors.New("the worker is running already")

	// ErrTransactionLimit: the server ends transactions too soon for a hold in one
	// (HoldTransaction). Hold by lease, or raise the setting that the error names.
	ErrTransactionLimit = errors.New("the server ends transactions too soon")

	// ErrPool: the pool of connections is too small for the worker, or for one more
	// delivery that holds one of them. Or no connection was free in time, or the server
	// takes no more.
	ErrPool = backend.ErrPool

	// ErrStopped: the worker stopped, and the time that handlers had to come to
	// their end is over. It is the cause of the end of their contexts.
	ErrStopped = errors.New("the worker has stopped")

	// ErrNotReceived: the program made the message itself, so there is no transaction in which it
	// is acknowledged. Message.WithTx gives it one; package parleytest has messages for tests.
	ErrNotReceived = errors.New("the message was not received")

	// ErrSettled: the delivery has been settled already.
	ErrSettled = errors.New("the delivery is settled")
)

// DialogError is what a conversation ended with: an application's code above
// zero, or the broker's below zero.
type DialogError = backend.DialogError

// Error says which verb failed on what, why, and what to do about it.
type Error struct {
	Op     string // "send", "receive", …
	Object string // "queue \"emails\"", "conversation 0190…"
	Err    error
	Hint   string
}

func (e *Error) Error() string {
	s := "parley: " + e.Op
	if e.Object != "" {
		s += ": " + e.Object
	}
	s += ": " + e.Err.Error()
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// hints say what to do where the error alone does not.
var hints = []struct {
	err  error
	hint string
}{
	{ErrUnknownQueue, "define it with Broker.Define"},
	{ErrUnknownService, "define it with Broker.Define"},
	{ErrUnknownContract, "define it with Broker.Define"},
	{ErrUnknownType, "define it with Broker.Define"},
	{ErrQueueDisabled, "enable it with Admin.EnableQueue"},
	{ErrNoValidator, "call Broker.RegisterValidator at start"},
	{ErrConversationError, "end the conversation and begin another"},
	{ErrFarEnded, "end this side too"},
	{ErrSealed, "begin another conversation"},
	{ErrFenced, "its messages will be delivered again"},
	{ErrWouldDeadlock, "do it inside the open transaction, before that is opened, or after it has ended"},
	{ErrLockDeadlock, "let go of what others wait for, and try again"},
	{ErrNoTx, "begin one, and join that"},
	{ErrTxSettings, "set search_path and the role back before a verb, or have the store's Options.Schema name its schema"},
	{ErrReadOnly, "connect to the primary"},
	{ErrDenied, "grant it what parley grants prints for its role"},
	{ErrNotReceived, "give it a transaction with Message.WithTx, or have package parleytest handle it"},
	{ErrNoSpace, "make room on the database's disk"},
}

// WrapError makes an *Error of the error of a verb, for packages that add verbs to
// Parley's. Errors of a context, and an *Error, go through untouched.
func WrapError(op, object string, err error) error { return fail(op, object, err) }

// fail wraps an error of a verb. Errors of a context, and those that say all of
// it already, go through untouched.
func fail(op, object string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	var e *Error
	if errors.As(err, &e) || errors.Is(err, ErrNoMessage) {
		return err
	}
	e = &Error{Op: op, Object: object, Err: err}
	for _, h := range hints {
		if errors.Is(err, h.err) {
			e.Hint = h.hint
			break
		}
	}
	return e
}

// IsRetryable reports whether the transaction that met the error cannot have
// committed and may well succeed if it is run again from its start.
func IsRetryable(err error) bool {
	return errors.Is(err, ErrSerialization) || errors.Is(err, ErrGroupBusy) || errors.Is(err, ErrNotBegun)
}

func objQueue(name string) string { return fmt.Sprintf("queue %q", name) }
func objConv(h ID) string         { return "conversation " + h.String() }
func objGroup(g ID) string        { return "group " + g.String() }
