package controller

import "context"

// Owner decides in which replicas a row runs, and with which keys.
type Owner struct {
	leader bool
	share  Share
	inside bool
	by     func(key string) string
}

var (
	// EveryReplica is the owner of rows that run in every replica, with all keys.
	EveryReplica = Owner{}
	// Leader is the owner of rows that run only in the replica that holds the lease of the process.
	Leader = Owner{leader: true}
)

// Shared returns the owner of rows that run in every replica, each with its share of the keys. by returns the text by which a key is shared;
// nil for the key itself.
func Shared(s Share, by func(key string) string) Owner { return Owner{share: s, by: by} }

// Inside returns the owner of rows that run in every replica and share the work inside of their keys. Their keys are added again whenever the share
// of this replica changes.
func Inside(s Share) Owner { return Owner{share: s, inside: true} }

// Share decides which keys belong to this replica (package ring).
type Share interface {
	// Hold begins work on the key; ok is false if it may not begin. held is cancelled if the work must end early. release ends it.
	Hold(ctx context.Context, key string) (held context.Context, release func(), ok bool)
	// Changed returns a channel that is closed when the held keys change.
	Changed() <-chan struct{}
}

// hold begins work on a key of a row.
func (o Owner) hold(ctx context.Context, key string) (held context.Context, release func(), ok bool) {
	if o.share == nil || o.inside {
		return ctx, func() {}, true
	}
	if o.by != nil {
		key = o.by(key)
	}
	return o.share.Hold(ctx, key)
}
