package pipeline

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// together runs tasks side by side until all have ended. The first error cancels the context of the others and calls
// interrupt, once, which is to free a task that is blocked outside; so does the end of ctx. Whichever came first, the
// error or the cause of ctx, is returned in place of the errors that it brought about. interrupt is called if and only
// if together returns an error.
func together(ctx context.Context, interrupt func(), tasks ...func(context.Context) error) error {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	interrupted := make(chan struct{})
	stop := context.AfterFunc(inner, func() {
		defer close(interrupted)
		if interrupt != nil {
			interrupt()
		}
	})
	var group errgroup.Group
	for _, task := range tasks {
		group.Go(func() error {
			err := task(inner)
			if err != nil {
				cancel(err)
			}
			return err
		})
	}
	err := group.Wait()
	if stop() {
		return err // nil: an error would have ended inner
	}
	<-interrupted
	return context.Cause(inner)
}
