package event

// QueueName is the controller's name in metrics.
const QueueName = "kyverno-events"

// Observer counts: EventDropped is called for each event that could not be kept or written, Reconciled for each attempt to
// write one, Requeued before the next attempt, Dropped when no further one is made.
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
