// Package telemetry sets up the metrics and traces of a process, and the server of the metrics.
//
//	t, err := telemetry.Start(ctx, flags, config, telemetry.Process{Name: "admission", …}, log)
//	config = t.Wrap(config, observe.KubeClient)     // requests to the API server are counted and traced
//	process.Observer = t.Rows()                     // the rounds of rows are counted, too
//
// It follows the metrics ConfigMap, and renews the certificate of the metrics server if that uses TLS.
//
// Package observe defines the metrics and traces themselves.
//
// Floor 8: imports the floors below.
package telemetry
