#!/usr/bin/env node
import { startAuth } from './auth/main.js'
import { jsonLog } from './shared/json-log.js'
import { prometheusMetrics, type Metrics } from './shared/metrics.js'
import { readEnv, type ServerEnv, type ServerName } from './shared/read-env.js'
import { stopAtSignal, type Running } from './shared/serve.js'

const USAGE = `usage: express-did-auth <command>

  auth    the authentication server (port 3000)
  all     every server of this version, in one process

All settings are environment variables, see the README.`

const starters: Partial<Record<ServerName, (env: ServerEnv, metrics?: Metrics) => Promise<Running>>> = {
  auth: startAuth
}

/** Runs the servers that the command names, until a signal stops them. */
async function run(command: string | undefined): Promise<void> {
  const known = Object.entries(starters)
  const chosen = known.filter(([name]) => command === 'all' || command === name)
  if (chosen.length === 0) {
    const isHelp = command === '--help' || command === '-h'
    process[isHelp ? 'stdout' : 'stderr'].write(`${USAGE}\n`)
    process.exitCode = isHelp ? 0 : 2
    return
  }
  // All environments are read before anything starts, so that one message names everything.
  const plans = chosen.map(([name, start]) => ({
    start,
    env: readEnv(process.env, name as ServerName, command === 'all')
  }))
  const [first] = plans
  if (first === undefined) return
  const { METRICS_PORT: metricsPort, host } = first.env
  const metrics = metricsPort === undefined ? undefined : prometheusMetrics()
  if (metrics !== undefined && metricsPort !== undefined) await metrics.listen(metricsPort, host)
  const running = await Promise.all(plans.map(({ start, env }) => start(env, metrics)))
  stopAtSignal(running, jsonLog(first.env))
}

run(process.argv[2]).catch((error: unknown) => {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
  process.exit(1)
})
