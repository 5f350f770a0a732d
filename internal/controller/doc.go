// Package controller is the kit of which every loop of Ephor is made: a table of rows, each with what wakes it, what it does and in which
// replicas it runs.
//
//	rows := []controller.Row{
//		{Name: "webhooks", Owner: controller.Leader, Sources: []controller.Source{policies, settings}, Reconcile: webhooks.Reconcile},
//		{Name: "ttl", Owner: controller.Shared(ring, nil), Sources: []controller.Source{pods}, Keys: due.Keys, Reconcile: due.Reconcile},
//	}
//	err := (&controller.Process{Cache: manager.Start, Fill: fill, Rows: func(context.Context) []controller.Row { return rows }, …}).Run(ctx)
//
// A reader who knows controller-runtime finds its parts: a Row is a controller, a Signal or a Reflector is a source, a key is a request, and
// the queue is client-go's. The kit differs where controllers of controller-runtime do not fit: a Reflector keeps no objects, a row starts
// again whenever its replica leads again, replicas share keys by a ring, and a change does not shorten the pause after a failure.
//
// Pages is the only place that lists page by page, and Watch the only one that watches. The kit knows no kind of object and no policy.
//
// Floor 4: imports the API machinery and client-go only.
package controller
