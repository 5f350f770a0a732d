// Package telemetry connects a process with what observes it: metrics, traces, and the server of the metrics.
//
//	t, err := telemetry.Start(ctx, flags, config, telemetry.Process{Name: "admission", …}, log)
//	config = t.Wrap(config, observe.KubeClient)     // requests to the API server are counted and traced
//	task = t.Counted(task)                          // so are the rounds of a controller
//
// It follows the metrics ConfigMap, and keeps the certificate of the metrics server if that uses TLS.
//
// Package observe has the metrics and traces themselves.
//
// Floor 8: imports the floors below.
package telemetry
