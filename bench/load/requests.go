package load

import (
	"context"
	"fmt"
	"regexp"
	"strconv"

	"k8s.io/client-go/kubernetes"
)

// requestTotal matches a line of apiserver_request_total, whose labels are in alphabetical order.
var requestTotal = regexp.MustCompile(`(?m)^apiserver_request_total\{(.*)\} ([0-9.e+]+)$`)

var label = regexp.MustCompile(`([a-z_]+)="([^"]*)"`)

// verbs maps verbs of the metric to those of the audit log.
var verbs = map[string]string{
	"POST": "create", "PUT": "update", "PATCH": "patch", "APPLY": "patch", "DELETE": "delete", "DELETECOLLECTION": "deletecollection",
	"GET": "get", "LIST": "list", "WATCH": "watch",
}

// Requests returns apiserver_request_total of all clients, by verb and resource in the form of Asked.What.
func Requests(ctx context.Context, client kubernetes.Interface) (map[string]int, error) {
	text, err := client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]int{}
	for _, line := range requestTotal.FindAllSubmatch(text, -1) {
		n, err := strconv.ParseFloat(string(line[2]), 64)
		if err != nil {
			return nil, fmt.Errorf("apiserver_request_total: %w", err)
		}
		labels := map[string]string{}
		for _, l := range label.FindAllSubmatch(line[1], -1) {
			labels[string(l[1])] = string(l[2])
		}
		what := verbs[labels["verb"]] + " " + labels["resource"]
		if labels["subresource"] != "" {
			what += "/" + labels["subresource"]
		}
		out[what] += int(n)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("the API server's metrics have no apiserver_request_total")
	}
	return out, nil
}
