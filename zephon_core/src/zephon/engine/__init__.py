"""The engine: compile a pipeline to a plan, run it lane by lane, deliver its rounds.

===============  ==========================================================================
options          what a user may set; data settings and execution settings kept apart
topology         which lanes this rank owns, and what it delivers in each slot of a round
validate         fields, types and columns, checked through all operators before anything runs
plan             the compiled pipeline: stages, programs, schemas, computed lengths
program          what a worker does with one task: read, apply row operators, set bad rows aside
lane             one lane at work: ordered stages, lane operator states, consistent cuts
coordinator      which lane works next; bytes in flight
delivery         strict rotation over the owned lanes; rounds, tails, fillers
tally            rows, tokens and passes per dataset, as delivered
session          one run of a plan: everything above, started, checkpointed and closed
quarantine       rows that were set aside, one file a lane
observe          workers under observation, for hooks
resume           may this pipeline go on from that checkpoint, and if not, why
recipe           a pipeline as plain data; operators as methods
explain          the compiled plan, as data and as text
inline           the runner that works on the calling thread
samples          what the conformance kit is told of it
===============  ==========================================================================
"""
