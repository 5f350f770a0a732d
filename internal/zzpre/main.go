package main

import (
	_ "github.com/spf13/cobra"
	_ "k8s.io/api/admission/v1"
	_ "k8s.io/client-go/dynamic"
	_ "k8s.io/client-go/tools/leaderelection"
	_ "sigs.k8s.io/controller-runtime"
)

func main() {}
