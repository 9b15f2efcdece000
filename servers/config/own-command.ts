import { basename, relative } from 'node:path'

/**
 * How this process was started, so that a hint runs as it is printed: by npx in a project, by the path of the program in a
 * checkout or a container, by its name where it is installed for the machine.
 *
 * @param args - what follows, such as `keys new`
 */
export function ownCommand(args: string, script = process.argv[1] ?? ''): string {
  const name = basename(script)
  const isInstalled = /^express-did-auth(?:-servers)?$/.test(name)
  const program = isInstalled ? name : `node ${relative('', script)}`
  return `${isInstalled && script.includes('node_modules') ? 'npx ' : ''}${program} ${args}`
}
