import { UsageError, type CommandLine } from '../command-line.js'

export async function runDoctor(_commandLine: CommandLine): Promise<number> {
  throw new UsageError('not yet')
}
