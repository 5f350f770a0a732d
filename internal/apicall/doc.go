// Package apicall sends the HTTP requests of context entries of kind apiCall: to the Kubernetes API, and to services.
//
//	api, err := apicall.NewKubernetes(restConfig, apicall.Limits{})
//	services, err := apicall.NewServices(apicall.ServiceOptions{Block: apicall.DefaultBlocklist})
//
// Both return decoded JSON, limit the size of an answer and the time, and follow no redirects. A request to the Kubernetes API
// is built from a parsed path. A request to a service goes to an address that was checked after the name was resolved, and it
// never carries the process's own API token (S2, S11, S12 in docs/security/threat-model.md).
//
// It does not know policies; package world restricts what they can reach.
//
// Floor 4: talks to the network.
package apicall
