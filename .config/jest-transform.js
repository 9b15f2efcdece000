import { transform } from 'esbuild'

// Each process of Jest loads this file. One that runs tests frees all of its memory when it ends, and Jest reports one
// that takes more than half a second as a leak: it ends without that.
if (process.send !== undefined) process.once('exit', () => process.exit())

// Jest takes its transforms from a default export. It waits for them wherever it runs ES modules.
export default {
  async processAsync(source, path) {
    const options = { loader: 'ts', format: 'esm', target: 'es2023', sourcemap: 'inline', sourcefile: path }
    return { code: (await transform(source, options)).code }
  }
}
