// Package dashboard serves the web page of the reports controller: the results in the policy reports of the cluster by policy, by
// namespace, over time, and down to the message for one resource; also decisions, and the impact of policies.
//
//	d := dashboard.New(dashboard.Options{Client: client, Form: reports.PolicyReports, Log: log, Now: time.Now})
//	go d.Follow(ctx)               // lists the reports, then watches them, and takes samples for the trend
//	err := d.Serve(ctx, listener, nil)
//
// It stores counts and names, never reports: a request for messages reads those few reports again. It only reads, and has no framework, no
// cookie and no asset from elsewhere. With Options.Access and Options.Tokens each request must have a bearer token, and shows only reports
// that its user may list; without them it serves only loopback. All text from reports is treated as hostile: the page inserts it through
// textContent, under a content security policy that runs no other script and forbids HTML from text.
//
// Two more pages show the decisions of admission (Options.Decisions), and the effect that policies sent by a user would have had on
// recorded requests or on objects (Options.Discovery). Both show only what the user may read: objects are read with the user's own token,
// and such policies look nothing up. Package impact evaluates them.
//
// The package writes nothing, and does not know the author of a report.
//
// Floor 8: imports floors 0–7.
package dashboard
