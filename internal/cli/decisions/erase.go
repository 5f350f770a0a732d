package decisions

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/decision/store"
)

// newErase returns the command `ephor decisions erase`.
func newErase() *cobra.Command {
	address := ""
	cmd := &cobra.Command{
		Use:   "erase USER --store ADDRESS",
		Short: "Delete the records about a user from a store",
		Long: "Erase deletes all decisions about requests of a user from a store; in a file it also overwrites them. It refuses a file that\n" +
			"a controller has open: stop the controller first.",
		Example: "  ephor decisions erase jane@example.com --store sqlite:decisions.db",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if !store.CanRead(address) {
				return errors.New("--store: name a store, " + store.ReadForms())
			}
			there, err := store.OpenReader(address) // a file that does not exist is not made
			if err == nil {
				err = there.Close()
			}
			if err != nil {
				return err
			}
			s, err := store.Open(address, store.Options{Now: time.Now, Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, s.Close()) }()
			eraser, ok := s.(decision.Eraser)
			if !ok {
				return errors.New("--store: nothing can be deleted there")
			}
			n, err := eraser.EraseUser(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d decisions are deleted\n", n)
			return err
		},
	}
	cmd.Flags().StringVar(&address, "store", "", "address of the store: "+store.ReadForms()+" (required)")
	return cmd
}
