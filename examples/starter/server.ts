import { createApp } from './app.js'
import { store } from './store.js'

const server = createApp(store).listen(process.env.PORT ?? 3000)
server.on('listening', () => console.log(`Open ${process.env.SERVICE_URL}`))
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => server.close(() => void store.close()))
