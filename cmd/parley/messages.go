package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/parleymq/parley"
)

// posted is what `parley post` has added.
type posted struct {
	ID        parley.ID
	Duplicate bool
}

func (c *call) post() *cobra.Command {
	var typ, key, body, file, unique string
	var after, per time.Duration
	var priority int
	var headers map[string]string
	cmd := c.command("post QUEUE", "Post a message",
		"parley post mail --type Welcome --body '{\"to\":\"ann\"}'\nparley post reports --file report.json --key customer-7 --after 10m",
		cobra.ExactArgs(1), nil)
	cmd.RunE = c.verb("", "", "", nil, func(ctx context.Context, b *parley.Broker, args []string) error {
		payload := parley.Payload{Type: typ, Body: []byte(body), Headers: headers}
		if file != "" {
			text, err := c.read(file)
			if err != nil {
				return fmt.Errorf("parley: post: %w", err)
			}
			payload.Body = text
		}
		var p posted
		var o []parley.PostOption
		if key != "" {
			o = append(o, parley.Key(key))
		}
		if after != 0 {
			o = append(o, parley.After(after))
		}
		if cmd.Flags().Changed("priority") {
			o = append(o, parley.Priority(priority))
		}
		switch scoped := cmd.Flags().Changed("per"); {
		case scoped && unique == "":
			return errors.New("parley: post: --per needs --unique")
		case scoped:
			o = append(o, parley.UniquePer(unique, per), parley.Duplicate(&p.Duplicate))
		case unique != "":
			o = append(o, parley.Unique(unique), parley.Duplicate(&p.Duplicate))
		}
		var err error
		if p.ID, err = b.Post(ctx, args[0], payload, o...); err != nil {
			return err
		}
		if c.json {
			return c.encode(p)
		}
		c.printf("%s\n", p.ID)
		return nil
	}).RunE
	cmd.Flags().StringVar(&typ, "type", parley.DefaultType, "its message `type`")
	cmd.Flags().StringVar(&body, "body", "", "its body, a `text`")
	cmd.Flags().StringVar(&file, "file", "", "its body from a `file`; - is standard input")
	cmd.Flags().StringToStringVar(&headers, "header", nil, "a header, `name=value`; may be repeated")
	cmd.Flags().StringVar(&key, "key", "", "handle posts with the same `key` in their order")
	cmd.Flags().StringVar(&unique, "unique", "", "post it only if no post with this `value` is pending; otherwise print the id of that post")
	cmd.Flags().DurationVar(&per, "per", 0, "with --unique: post it only if none was due in the same `period`, such as 24h")
	cmd.Flags().DurationVar(&after, "after", 0, "deliver it after this `time`")
	cmd.Flags().IntVar(&priority, "priority", 5, "`level` from 1 to 10, 10 first")
	cmd.MarkFlagsMutuallyExclusive("body", "file")
	return cmd
}

func (c *call) read(file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(c.stdin)
	}
	return os.ReadFile(file)
}

func (c *call) cancel() *cobra.Command {
	var f parley.PostFilter
	cmd := c.verb("cancel QUEUE [MESSAGE...]", "Cancel posts that wait or are being handled",
		"parley cancel mail 0195e0a0-5f3e-7000-8000-3c8e2b1f0a11\nparley cancel mail --key customer-7",
		func(cmd *cobra.Command, args []string) error {
			if f.Key != "" || f.Type != "" || f.All {
				return cobra.MinimumNArgs(1)(cmd, args)
			}
			return cobra.MinimumNArgs(2)(cmd, args)
		},
		func(ctx context.Context, b *parley.Broker, args []string) (err error) {
			if f.IDs, err = ids(args[1:]); err != nil {
				return err
			}
			got, err := b.CancelPosts(ctx, args[0], f)
			if err != nil {
				return err
			}
			if c.json {
				return c.encode(got)
			}
			c.printf("cancel: %d posts removed\n", len(got.Removed))
			for _, id := range got.Requested {
				c.printf("requested of its receiver: %s\n", id)
			}
			return nil
		})
	cmd.Long = "Cancel posts that wait or are being handled. Posts that wait are removed. The worker that handles a post is asked\n" +
		"to stop: the context of the handler ends within a second, and the post is removed if the handler then fails."
	cmd.Flags().StringVar(&f.Key, "key", "", "cancel the posts with this `key`")
	cmd.Flags().StringVar(&f.Type, "type", "", "cancel the posts of this message `type`")
	cmd.Flags().BoolVar(&f.All, "all", false, "cancel all posts of the queue")
	return cmd
}

// errLooked ends a transaction that only looked.
var errLooked = errors.New("looked")

func (c *call) peek() *cobra.Command {
	var limit int
	var group string
	cmd := c.verb("peek QUEUE", "Show the messages that would be received next, without consuming them", "parley peek orders --limit 3",
		cobra.ExactArgs(1), func(ctx context.Context, b *parley.Broker, args []string) error {
			if limit < 1 {
				return fmt.Errorf("parley: peek: limit %d: want 1 or more", limit)
			}
			var o parley.ReceiveOptions
			if group != "" {
				id, err := parley.ParseID(group)
				if err != nil {
					return err
				}
				o.Group = id
			}
			list, err := upcoming(ctx, b, args[0], o, limit)
			if err != nil {
				return err
			}
			return c.printMessages(list)
		})
	cmd.Long = "Show the messages that would be received next. They are locked for a moment and given back; no attempt is counted.\n" +
		"What receivers hold, and what is delayed, deferred or parked, is left out (parley parked show)."
	cmd.Flags().IntVar(&limit, "limit", 10, "show at most `n` messages")
	cmd.Flags().StringVar(&group, "group", "", "only messages of this `group`")
	return cmd
}

// upcoming are the messages that would be received next: it receives them and gives them back.
func upcoming(ctx context.Context, b *parley.Broker, queue string, o parley.ReceiveOptions, limit int) ([]*parley.Message, error) {
	list := []*parley.Message{}
	err := b.InTx(ctx, func(tx *parley.Tx) error {
		for len(list) < limit {
			o.MaxMessages = limit - len(list)
			got, err := tx.Receive(ctx, queue, &o)
			if errors.Is(err, parley.ErrNoMessage) {
				break
			}
			if err != nil {
				return err
			}
			list = append(list, got...)
		}
		return errLooked
	})
	if !errors.Is(err, errLooked) {
		return nil, err
	}
	return list, nil
}

// messagesOf are the first messages of a group in a state.
func messagesOf(ctx context.Context, b *parley.Broker, queue, state string, group parley.ID, limit int) ([]*parley.Message, error) {
	if state == "parked" || state == "deferred" {
		return b.Admin().PeekParked(ctx, queue, group, limit)
	}
	return upcoming(ctx, b, queue, parley.ReceiveOptions{Group: group}, limit)
}

const messageColumns = "MESSAGE\tTYPE\tKEY\tATTEMPT\tBYTES\tBODY\tLAST ERROR\tENQUEUED\tGROUP"

func messageRow(m *parley.Message) []any {
	return []any{m.ID, m.Type, m.Key, m.Attempt, len(m.Body), beginning(m.Body), firstLine(m.LastError), date(m.Enqueued), m.Group}
}

func (c *call) printMessages(list []*parley.Message) error {
	return c.print(list, messageColumns, func(row func(...any)) {
		for _, m := range list {
			row(messageRow(m)...)
		}
	})
}

// beginning is the first line of a body, as far as a table shows it.
func beginning(body []byte) string {
	const most = 60
	text := strconv.QuoteToGraphic(string(body[:min(len(body), most)]))
	if text = text[1 : len(text)-1]; len(body) > most {
		text += "…"
	}
	return text
}

func (c *call) conversations() *cobra.Command {
	var after string
	var limit int
	cmd := c.verb("conversations [HANDLE]", "List conversations with both sides", "parley conversations --limit 10", cobra.MaximumNArgs(1),
		func(ctx context.Context, b *parley.Broker, args []string) (err error) {
			q := parley.ConversationQuery{Limit: limit}
			if after != "" {
				if q.After, err = parley.ParseID(after); err != nil {
					return err
				}
			}
			if len(args) == 1 {
				if q.Handle, err = parley.ParseID(args[0]); err != nil {
					return err
				}
			}
			list, err := b.Admin().Conversations(ctx, q)
			if err != nil {
				return err
			}
			const columns = "CONVERSATION\tHANDLE\tSIDE\tSERVICE\tFAR\tSTATE\tGROUP\tPRIORITY\tSENT\tWAITING\tWITHHELD\tTIMER\tSAYS"
			return c.print(list, columns, func(row func(...any)) {
				for _, s := range list {
					side, says := "target", s.Status
					if s.Initiator {
						side = "initiator"
					}
					if s.Error != nil {
						says = s.Error.Error()
					}
					row(s.Conversation, s.Handle, side, s.Service, s.FarService, s.State, s.Group, s.Priority, s.NextSeq,
						atLeast(s.Waiting), atLeast(s.Withheld), age(s.Timer), says)
				}
			})
		})
	cmd.Flags().StringVar(&after, "after", "", "begin after this conversation `id`")
	cmd.Flags().IntVar(&limit, "limit", 100, "show at most `n` conversations")
	return cmd
}
