// Package discoverytest answers discovery in tests, as an API server that serves a list of resources.
package discoverytest
