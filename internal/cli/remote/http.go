package remote

import (
	"sync"

	"ephor.invalid/ephor/internal/apicall"
	"ephor.invalid/ephor/internal/world"
)

// HTTP sends the HTTP requests of CEL policies over the network.
var HTTP = sync.OnceValue(func() world.HTTP {
	s, err := apicall.NewServices(apicall.ServiceOptions{Block: apicall.DefaultBlocklist})
	if err != nil {
		return nil // the options are constant, so there is no error
	}
	return s.Exchange
})
