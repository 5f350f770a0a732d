// Package discoverytest implements discovery for tests, like an API server that serves a fixed list of resources.
package discoverytest
