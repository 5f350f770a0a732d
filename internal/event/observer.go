package event

// QueueName is the controller's name in metrics.
const QueueName = "kyverno-events"

// Observer counts events. EventDropped is called for each event that was not kept or written, Reconciled for each attempt to write one,
// Requeued before the next attempt, and Dropped if there is no further attempt.
type Observer interface {
	EventDropped()
	Reconciled(controller string)
	Requeued(controller string, failures int)
	Dropped(controller string)
}

type unobserved struct{}

func (unobserved) EventDropped()        {}
func (unobserved) Reconciled(string)    {}
func (unobserved) Requeued(string, int) {}
func (unobserved) Dropped(string)       {}

// giveUp counts an event that was not written.
func (q *Queue) giveUp() {
	q.Observer.Dropped(QueueName)
	q.Observer.EventDropped()
}
