// Package dashboard is the web page of the reports controller: what the policy reports of the cluster say, by policy, by
// namespace, over time, and down to the message about one resource.
//
//	d := dashboard.New(dashboard.Options{Client: client, Form: reports.PolicyReports, Log: log, Now: time.Now})
//	go d.Follow(ctx)               // lists the reports, then watches them, and takes samples for the trend
//	err := d.Serve(ctx, listener, nil)
//
// It keeps counts and names, never reports: who asks for messages makes it read those few reports again. It only reads,
// has no framework, no cookie and no asset from elsewhere. With Options.Access and Options.Tokens each request has to
// carry a bearer token, and shows what its user may list; without them it is for loopback alone. All that reports say is
// hostile text: the page shows it through textContent, under a policy that runs no other script and forbids HTML from text.
//
// The package evaluates nothing, writes nothing, and does not know who made a report.
//
// Floor 8: imports floors 0–7.
package dashboard
