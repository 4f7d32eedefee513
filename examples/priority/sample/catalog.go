// Package sample is the program of Remus Rusanu's "Processing conversation with
// priority order" on Parley. Clients ask a service for long work and may ask, on the
// same conversation, that their request be moved to the front.
//
// The service is split in two, as published. The front end takes what clients send and
// is never busy for long. So a request for priority does not wait behind the very
// backlog that it wants to overtake. The back end does the work. Direct shows what
// Parley makes possible beside it: one service, whose peers may promote their own
// conversations.
package sample

import (
	"context"

	"github.com/parleymq/parley"
)

// The names, as published.
const (
	workload    = "LongWorkloadRequest"
	setPriority = "SetPriority"
	response    = "Response"

	requestWithPriority = "RequestWithPriority"
	requestInternal     = "RequestInternal"

	frontEnd = "PriorityService"
	backEnd  = "BackEndService"
	client   = "SampleClient"

	frontEndQueue = "FrontEndQueue"
	backEndQueue  = "BackEndQueue"
	clientQueue   = "SampleClient"
)

func define(ctx context.Context, b *parley.Broker) error {
	return b.Define(ctx, parley.Catalog{
		Types: []parley.MessageType{
			{Name: workload, Validation: parley.ValidationXML},
			{Name: setPriority, Validation: parley.ValidationXML},
			{Name: response, Validation: parley.ValidationXML},
		},
		Contracts: []parley.Contract{
			{Name: requestWithPriority, Messages: []parley.ContractEntry{
				{Type: workload, SentBy: parley.ByInitiator},
				{Type: setPriority, SentBy: parley.ByInitiator},
				{Type: response, SentBy: parley.ByTarget},
			}},
			{Name: requestInternal, Messages: []parley.ContractEntry{
				{Type: workload, SentBy: parley.ByInitiator},
				{Type: response, SentBy: parley.ByTarget},
			}},
		},
		Queues: []parley.Queue{{Name: frontEndQueue}, {Name: backEndQueue}, {Name: clientQueue}},
		Services: []parley.Service{
			{Name: client, Queue: clientQueue},
			{Name: frontEnd, Queue: frontEndQueue, Contracts: []string{requestWithPriority}},
			{Name: backEnd, Queue: backEndQueue, Contracts: []string{requestInternal}, FarPromotion: parley.MaxLevel},
		},
	})
}
